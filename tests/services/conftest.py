"""Real services, one module of fixtures each; pytest loads those that are listed here.

A service that is not to be had skips its tests and says why; with CI=true it fails them. What a fixture starts or
stores it ends and removes, by its own id and name alone.
"""

from __future__ import annotations

from services.aws import aws, aws_server, scripted_image
from services.base_image import base, base_archive, build_words, context, image
from services.chromium_service import page
from services.demo_service import demo
from services.docker_service import docker, docker_environment
from services.engine_service import engine, on_engine
from services.podman_service import ordinary, podman, podman_environment
from services.registry_service import faulty, registry
from services.s3_service import store
from services.slurm_service import accounting_slurm, plain_slurm, slurm, slurm_accounted, slurm_alone

__all__ = [
    "accounting_slurm",
    "aws",
    "aws_server",
    "base",
    "base_archive",
    "build_words",
    "context",
    "demo",
    "docker",
    "docker_environment",
    "engine",
    "faulty",
    "image",
    "on_engine",
    "ordinary",
    "page",
    "plain_slurm",
    "podman",
    "podman_environment",
    "registry",
    "scripted_image",
    "slurm",
    "store",
    "slurm_accounted",
    "slurm_alone",
]
