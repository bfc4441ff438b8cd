"""Names the router of each family of other systems' clients."""

from fastapi import APIRouter

from service.api.compat import classify, huggingface, mlflow, openinference
from service.settings import Families, Family

# One router for each family of the settings, in their order.
ROUTERS: dict[Family, APIRouter] = {
    "huggingface": huggingface.router,
    "openinference": openinference.router,
    "classify": classify.router,
    "mlflow": mlflow.router,
}


def routers_of(families: Families) -> list[APIRouter]:
    """Returns the routers of those families that are on."""
    return [router for family, router in ROUTERS.items() if family in families]
