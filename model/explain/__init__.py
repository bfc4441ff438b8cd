"""Explains predictions by attention, gradients and interventions."""

from model.explain.attention_steps import HeadInspector, HeadSteps
from model.explain.attribution import MOST_STEPS, STEPS, Attribution, Attributor, Method, attribute
from model.explain.gradients import Gradients, HeadImportance
from model.explain.interventions import Head, leave_out, switch_off
from model.explain.thumbnails import LEAST_SIDE, MOST_SIDE, Strongest, Thumbnail, thumbnail_side
from model.explain.views import RAW, Level, Reduce, reduce_weights, reduced_shape, view_name

__all__ = [
    "LEAST_SIDE",
    "MOST_SIDE",
    "MOST_STEPS",
    "RAW",
    "STEPS",
    "Attribution",
    "Attributor",
    "Gradients",
    "Head",
    "HeadImportance",
    "HeadInspector",
    "HeadSteps",
    "Level",
    "Method",
    "Reduce",
    "Strongest",
    "Thumbnail",
    "attribute",
    "leave_out",
    "reduce_weights",
    "reduced_shape",
    "switch_off",
    "thumbnail_side",
    "view_name",
]
