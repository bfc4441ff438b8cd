"""deploy/haproxy-tls.cfg in a real HAProxy, with the self-made certificate of the guide."""

import re
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from tests.deploy import balancers
from tests.deploy.balancers import DEPLOY, Balancer
from tests.documentation.markdown import ROOT, blocks
from tests.end_to_end.servers import local_service, wait_until

PAGE = ROOT / "docs" / "guides" / "deploy.md"
PATIENCE = 60
pytestmark = balancers.needs("haproxy", "openssl")


@pytest.fixture(scope="module")
def balancer(
    tmp_path_factory: pytest.TempPathFactory, checkpoint_folder: Path
) -> Iterator[Balancer]:
    """In front of one replica."""
    folder = tmp_path_factory.mktemp("tls")
    [make_certificate] = [x.content for x in blocks(PAGE, "bash") if "openssl req" in x.content]
    subprocess.run(["bash", "-euc", make_certificate], cwd=folder, check=True, capture_output=True)
    with (
        local_service(checkpoint_folder, folder) as replica,
        balancers.balancer("haproxy-tls", [replica.port], folder) as front,
    ):
        yield front


@pytest.fixture
def context(balancer: Balancer) -> ssl.SSLContext:
    """Trusts this certificate and no other."""
    certificate = balancer.log.parent / "certs" / "certificate.pem"
    return ssl.create_default_context(cafile=str(certificate))


def test_answers_come_over_a_verified_connection(
    balancer: Balancer, context: ssl.SSLContext
) -> None:
    url = f"https://localhost:{balancer.tls_port}"
    with httpx.Client(base_url=url, verify=context, timeout=PATIENCE) as client:

        def is_ready() -> bool:
            try:
                return client.get("/health/ready").status_code == 200
            except httpx.ConnectError:
                return False

        wait_until(is_ready)
        answer = client.post("/predict", json={"sentences": ["a warm film"]})
    assert answer.status_code == 200
    assert answer.json()["predictions"][0]["token_count"] == 5
    assert answer.headers["strict-transport-security"] == "max-age=31536000"


def test_browsers_get_http_2_and_old_versions_of_tls_are_refused(
    balancer: Balancer, context: ssl.SSLContext
) -> None:
    def connect() -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", balancer.tls_port), timeout=PATIENCE)
        return context.wrap_socket(plain, server_hostname="localhost")

    context.set_alpn_protocols(["h2", "http/1.1"])
    with connect() as connection:
        assert connection.selected_alpn_protocol() == "h2"
        assert connection.version() == "TLSv1.3"
    context.set_ciphers("ALL:@SECLEVEL=0")  # or this side would refuse
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with connect() as connection:
        assert connection.version() == "TLSv1.2"
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        context.minimum_version = ssl.TLSVersion.TLSv1_1
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError) as caught:
        connect()
    assert caught.value.reason == "TLSV1_ALERT_PROTOCOL_VERSION"


def test_the_compose_file_of_the_guide_gives_haproxy_both_files() -> None:
    pages = [yaml.safe_load(block.content) for block in blocks(PAGE, "yaml")]
    [override] = [page for page in pages if "balancer" in page.get("services", ())]
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    added = override["services"]["balancer"]
    mounted = [*compose["services"]["balancer"]["volumes"], *added["volumes"]]
    sources = {volume.split(":")[1]: volume.split(":")[0] for volume in mounted}
    files = [argument for argument in added["command"] if argument != "-f"]
    assert [sources[file] for file in files] == ["./deploy/haproxy.cfg", "./deploy/haproxy-tls.cfg"]
    tls = (DEPLOY / "haproxy-tls.cfg").read_text(encoding="utf-8")
    [certificate] = re.findall(r" crt (\S+)", tls)
    assert sources[certificate] == "./certs/site.pem"
    [port] = re.findall(r"bind :(\d+)", tls)
    assert added["ports"] == [f"443:{port}"]
