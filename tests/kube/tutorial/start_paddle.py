"""A user's script of 2017: finds the other pods, then runs `paddle pserver` beside `paddle train`."""

import json
import os
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

JOB = f"{os.environ['JOB_PATH']}/{os.environ['JOB_NAME']}"
OUTPUT = f"{JOB}/output"
TRAINERS = int(os.environ["CONF_PADDLE_GRADIENT_NUM"])
TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


def pods():
    server = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT_HTTPS']}"
    query = f"/api/v1/namespaces/{os.environ['JOB_NAMESPACE']}/pods?labelSelector=job-name={os.environ['JOB_NAME']}"
    headers = {"Authorization": f"Bearer {TOKEN.read_text()}"}
    request = urllib.request.Request(server + query, headers=headers)
    with urllib.request.urlopen(request, context=ssl._create_unverified_context()) as answer:
        return json.load(answer)["items"]


def running():
    """The addresses of all pods in the order of their ids, once all of them run."""
    while True:
        found = [pod["status"]["podIP"] for pod in pods() if pod["status"]["phase"] == "Running"]
        if len(found) == TRAINERS:
            return sorted(found)
        print("waiting for pods running, require:", TRAINERS, "running:", len(found), flush=True)
        time.sleep(1)


def main():
    addresses = running()
    me = addresses.index(socket.gethostbyname(socket.gethostname()))
    logs = Path(OUTPUT) / f"node_{me}"
    logs.mkdir(parents=True, exist_ok=True)
    subprocess.run(f"cp -rf {JOB}/{me}/data/* ./data/", shell=True, check=True)
    common = f" --nics={os.environ['CONF_PADDLE_NIC']} --port={os.environ['CONF_PADDLE_PORT']}"
    common += f" --ports_num={os.environ['CONF_PADDLE_PORTS_NUM']} --comment=paddle_process_by_paddle"
    server = f"nohup paddle pserver{common} --ports_num_for_sparse={os.environ['CONF_PADDLE_PORTS_NUM_SPARSE']}"
    server += f" --num_gradient_servers={TRAINERS} > {logs}/server.log 2>&1 &"
    print(server, flush=True)
    subprocess.run(server, shell=True, check=True)
    trainer = f"paddle train{common} --pservers={','.join(addresses)} {' '.join(sys.argv[1:])}"
    trainer += f" --trainer_id={me} --save_dir={OUTPUT} 2>&1 | tee {logs}/train.log; exit ${{PIPESTATUS[0]}}"
    print(trainer, flush=True)
    sys.exit(subprocess.run(["bash", "-c", trainer], check=False).returncode)


main()
