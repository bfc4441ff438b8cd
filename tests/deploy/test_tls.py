"""deploy/haproxy-tls.cfg in a real HAProxy, with the self-made certificate of the guide."""

import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml

from tests.deploy import balancers
from tests.deploy.test_balancer import Replica
from tests.documentation.markdown import ROOT, blocks
from tests.end_to_end.servers import local_service, wait_until

DEPLOY = ROOT / "deploy"
PAGE = ROOT / "docs" / "guides" / "deploy.md"
PATIENCE = 60
missing = [name for name in ("haproxy", "openssl") if shutil.which(name) is None]
pytestmark = pytest.mark.skipif(
    bool(missing) and "CI" not in os.environ, reason=f"{' and '.join(missing)} is not installed"
)


@dataclass(frozen=True, slots=True)
class Balancer:
    """Where HAProxy answers, and the certificate that it shows."""

    port: int
    certificate: Path
    log: Path

    def context(self) -> ssl.SSLContext:
        """Trusts this certificate and no other."""
        return ssl.create_default_context(cafile=str(self.certificate))

    def client(self) -> httpx.Client:
        url = f"https://localhost:{self.port}"
        return httpx.Client(base_url=url, verify=self.context(), timeout=PATIENCE)

    def connect(self, context: ssl.SSLContext) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        return context.wrap_socket(plain, server_hostname="localhost")

    def answers(self) -> bool:
        try:
            with self.client() as client:
                return client.get("/health/ready").status_code == 200
        except httpx.ConnectError:
            return False


@pytest.fixture(scope="module")
def balancer(
    tmp_path_factory: pytest.TempPathFactory, checkpoint_folder: Path
) -> Iterator[Balancer]:
    """In front of one replica, which is ready."""
    folder = tmp_path_factory.mktemp("tls")
    [make_certificate] = [x.content for x in blocks(PAGE, "bash") if "openssl req" in x.content]
    subprocess.run(["bash", "-euc", make_certificate], cwd=folder, check=True, capture_output=True)
    with (
        local_service(checkpoint_folder, folder) as replica,
        balancers.balancer("haproxy-tls", [replica.port], folder) as front,
    ):
        balancer = Balancer(front.tls_port, folder / "certs" / "certificate.pem", front.log)
        wait_until(balancer.answers)
        yield balancer


def test_answers_come_over_a_verified_connection(balancer: Balancer) -> None:
    with balancer.client() as client:
        answer = client.post("/predict", json={"sentences": ["a warm film"]})
        assert answer.status_code == 200
        assert answer.json()["predictions"][0]["token_count"] == 5
        assert answer.headers["x-served-by"] == "api1"
        assert answer.headers["strict-transport-security"] == "max-age=31536000"


def test_browsers_get_http_2(balancer: Balancer) -> None:
    context = balancer.context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with balancer.connect(context) as connection:
        assert connection.selected_alpn_protocol() == "h2"
        assert connection.version() == "TLSv1.3"


def test_old_versions_of_tls_are_refused(balancer: Balancer) -> None:
    context = balancer.context()
    context.set_ciphers("ALL:@SECLEVEL=0")  # or this side would refuse
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with balancer.connect(context) as connection:
        assert connection.version() == "TLSv1.2"
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        context.minimum_version = ssl.TLSVersion.TLSv1_1
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError) as caught:
        balancer.connect(context)
    assert caught.value.reason == "TLSV1_ALERT_PROTOCOL_VERSION"


def test_the_log_has_id_method_and_path_here_too(balancer: Balancer) -> None:
    with balancer.client() as client:
        assert client.get("/model", headers={"X-Request-ID": "mine-1"}).status_code == 200
        assert client.get("/quokka", headers={"X-Request-ID": "mine-2"}).status_code == 404
    known = '"request_id":"mine-1","method":"GET","path":"/model","status":200'
    unknown = '"request_id":"mine-2","method":"GET","path":"-","status":404'
    wait_until(lambda: known in balancer.log.read_text(encoding="utf-8"))
    wait_until(lambda: unknown in balancer.log.read_text(encoding="utf-8"))


def test_replicas_learn_the_address_of_a_client_here_too(
    balancer: Balancer, tmp_path: Path
) -> None:
    """They trust the balancer, so what a client claims must not come through."""
    shutil.copytree(balancer.certificate.parent, tmp_path / "certs")
    replica = Replica()
    with balancers.balancer("haproxy-tls", [replica.server_port], tmp_path) as front:
        own = Balancer(front.tls_port, balancer.certificate, front.log)
        wait_until(own.answers)
        with own.client() as client:
            client.post("/predict", json={}, headers={"X-Forwarded-For": "192.0.2.1"})
    replica.end()
    assert replica.forwarded == ["127.0.0.1"]


def test_the_compose_file_of_the_guide_gives_haproxy_both_files() -> None:
    pages = [yaml.safe_load(block.content) for block in blocks(PAGE, "yaml")]
    [override] = [page for page in pages if "balancer" in page.get("services", ())]
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    added = override["services"]["balancer"]
    mounted = [*compose["services"]["balancer"]["volumes"], *added["volumes"]]
    places = {volume.split(":")[1]: volume.split(":")[0] for volume in mounted}
    files = [argument for argument in added["command"] if argument != "-f"]
    assert [places[file] for file in files] == ["./deploy/haproxy.cfg", "./deploy/haproxy-tls.cfg"]
    tls = (DEPLOY / "haproxy-tls.cfg").read_text(encoding="utf-8")
    [certificate] = re.findall(r" crt (\S+)", tls)
    assert places[certificate] == "./certs/site.pem"
    [port] = re.findall(r"bind :(\d+)", tls)
    assert added["ports"] == [f"443:{port}"]
