"""The process of the embedded endpoint: llama.cpp's HTTP server for one model, on 127.0.0.1 only.

    python -m serl.researcher.llm.embedded MODEL.gguf --name tiny --port 0

Prints `ready http://127.0.0.1:PORT` and serves until SIGTERM or until its parent process exits.
"""

import argparse
import os
import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from serl.clients.parent_watch import exit_with_parent

HOST = "127.0.0.1"
CACHE_MIB = 64
"""Prompt cache; llama.cpp's default is 8 GiB."""


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--lora", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--parent", type=int, required=True)
    arguments = parser.parse_args()
    stopped = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    _server: Any = start(arguments)
    print(f"ready {_server.listening_address}", flush=True)
    os.dup2(2, 1)  # the parent stops reading the pipe after the ready line
    exit_with_parent(arguments.parent)
    stopped.wait()
    # do not join the server's threads: one may still be generating an answer
    os._exit(0)


def start(arguments: argparse.Namespace) -> Any:
    """Start the server; it stops when the object is deleted."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(arguments.model)
    params.model_alias = {arguments.name} if isinstance(params.model_alias, set) else arguments.name
    params.hostnames, params.port = [HOST], arguments.port
    # llama.cpp divides the context among the slots
    params.n_ctx, params.n_parallel = arguments.context * arguments.slots, arguments.slots
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = arguments.threads
    params.cache_ram_mib, params.ui, params.warmup, params.verbosity = CACHE_MIB, False, False, 1
    if arguments.lora:
        params.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(str(arguments.lora), 1.0)]
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
