"""Asks a service by the client that openapi-python-client made in `./generated`: its address."""

import importlib
import pkgutil
import sys

import generated
from generated import models
from generated.api.attention import attention_of_query
from generated.api.attributions import attributions_of_body
from generated.api.health import metrics
from generated.api.model import model
from generated.api.other_systems import classify, infer, inputs, invocations, version
from generated.api.sentiment import predict

TEXT = "A superb film."

for module in pkgutil.walk_packages(generated.__path__, "generated."):
    importlib.import_module(module.name)
client = generated.Client(base_url=sys.argv[1], raise_on_unexpected_status=True)
answer = predict.sync(client=client, body=models.PredictRequest([TEXT]))
label = answer.predictions[0].label
refused = predict.sync(client=client, body=models.PredictRequest([" "]))
assert refused.type_ == "/problems/invalid-request"
body = models.InputsRequest(
    TEXT, truncation_direction=models.InputsRequestTruncationDirectionType0.LEFT
)
assert inputs.sync(client=client, body=body)[0][0].label == label
assert predict.sync(client=client, body=body)[0].label == label
assert attention_of_query.sync(client=client, sentence=TEXT, layer=[0]).layers == [0]
# No default is sent that goes only with another method.
method = models.AttributionsRequestMethod.LEAVE_OUT
body = models.AttributionsRequest(TEXT, method=method)
assert attributions_of_body.sync(client=client, body=body).partial is False
name = model.sync(client=client).name
body = models.ClassifyRequest(TEXT)
assert classify.sync(client=client, body=body).data[0].label == label
body = models.InvocationsRequest(inputs=TEXT)
assert invocations.sync(client=client, body=body).predictions[0].label == label
tensor = models.Input(name="text", datatype="BYTES", shape=[1], data=[TEXT])
answer = infer.sync(model=name, client=client, body=models.InferRequest([tensor]))
assert answer.outputs[0].data == [label]
assert version.sync(client=client)[0].isdigit()
assert "headlight_ready 1.0" in metrics.sync(client=client)
