"""What is open to the world: nginx with TLS in front of the SuperLink, for the nodes' path and nothing else.

On its one port Flower also accepts new runs and hands out tasks, without asking for a key. So the SuperLink listens on
loopback, and only ``/v1/fleet/``, where nodes prove who they are, is passed on.
"""

import errno
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from understudy.engines.flower.keys import Certificates
from understudy.engines.flower.processes import end_leftovers, start, stop, wait_until_open
from understudy.engines.flower.runtime import Door
from understudy.errors import UserError

FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/sbin")  # where Debian puts it; not on everyone's PATH

CONFIG = """# Written by understudy: only the nodes' path is passed on to Flower's SuperLink.
{user}pid "{folder}/nginx.pid";
error_log "{folder}/nginx-error.log" warn;
worker_processes 2;
worker_rlimit_nofile 8192;
daemon off;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path "{folder}/body";
  proxy_temp_path "{folder}/proxy";
  fastcgi_temp_path "{folder}/fastcgi";
  uwsgi_temp_path "{folder}/uwsgi";
  scgi_temp_path "{folder}/scgi";
  server_tokens off;
  limit_conn_zone $binary_remote_addr zone=each:10m;
  server {{
    listen {listen} ssl;
    ssl_certificate "{certificate}";
    ssl_certificate_key "{key}";
    ssl_protocols TLSv1.2 TLSv1.3;
    client_max_body_size {largest}m;
    limit_conn each 64;
    location /v1/fleet/ {{
      limit_except POST {{ deny all; }}
      proxy_pass https://127.0.0.1:{port};
      proxy_ssl_verify on;
      proxy_ssl_name localhost;
      proxy_ssl_trusted_certificate "{ca}";
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_request_buffering off;
      proxy_max_temp_file_size 0;
      proxy_read_timeout 300s;
    }}
    location / {{ return 403; }}
  }}
}}
"""
LET_GO = 5.0  # seconds
LARGEST = 64  # megabytes per request; Flower sends arrays in chunks of five


def nginx() -> str | None:
    """Its path, if it is installed."""
    return shutil.which("nginx") or next((found for at in FOLDERS if (found := shutil.which("nginx", path=at))), None)


def installed_nginx() -> str:
    found = nginx()
    if found is None:
        raise UserError(
            "The server needs nginx to open its port, and it is not installed (Debian: apt install nginx-light); "
            "without it only --insecure on one machine is possible."
        )
    return found


def config(folder: Path, listen: str, certificates: Certificates, door: Door) -> str:
    """If root starts nginx, its workers stay root, since nobody else can read the folder."""
    files = {"ca": certificates.ca, "certificate": certificates.certificate, "key": certificates.key}
    paths = {name: _in_quotes(path) for name, path in {"folder": folder, **files}.items()}
    user = "user root;\n" if os.getuid() == 0 else ""
    return CONFIG.format(**paths, user=user, listen=listen, port=door.port, largest=LARGEST)


def _in_quotes(path: Path) -> str:
    """As nginx reads it between quotes."""
    whole = str(path.resolve())
    if "$" in whole:
        raise UserError(f"nginx does not accept a path with a $ in it: {whole}. Choose another folder.")
    return whole.replace("\\", "\\\\").replace('"', '\\"')


@contextmanager
def proxy(folder: Path, listen: str, certificates: Certificates, door: Door) -> Iterator[None]:
    """``listen`` is ADDRESS:PORT."""
    port_of(listen)
    found = installed_nginx()
    folder.mkdir(parents=True, exist_ok=True)
    file, log = folder / "nginx.conf", folder / "nginx.log"
    file.write_text(config(folder, listen, certificates, door))
    make_way(folder, listen)
    process = start([found, "-p", str(folder.resolve()), "-c", str(file.resolve())], log=log)
    try:
        wait_until_open(listen, process, log, seconds=30)
        yield
    finally:
        stop(process)


def make_way(folder: Path, listen: str) -> None:
    """Makes sure the port is free, even if a killed server left its nginx behind."""
    end_leftovers(folder / "nginx.log")
    check_free(listen)


def port_of(address: str, option: str = "--listen 0.0.0.0:8443") -> int:
    """The port in ADDRESS:PORT; ``option`` shows how to write it."""
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdigit() and 0 < int(port) < 65536) or "/" in host:
        name, _, example = option.partition(" ")
        raise UserError(f"{name} {address}: write an address and a port, such as {example}.")
    return int(port)


def check_free(listen: str) -> None:
    """Any other program that answers there would be mistaken for our nginx. A port may take a moment to be released."""
    host, _, port = listen.rpartition(":")
    until = time.monotonic() + LET_GO
    while True:
        with socket.socket(socket.AF_INET6 if host.startswith("[") else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host.strip("[]"), int(port)))
                return
            except OSError as error:
                if error.errno != errno.EADDRINUSE or time.monotonic() > until:
                    said = error.strerror
                    raise UserError(f"--listen {listen} cannot be used ({said}); choose another port.") from None
        time.sleep(0.2)
