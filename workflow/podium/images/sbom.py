"""The software bill of materials of an image, in CycloneDX 1.6 JSON, by its own Python library."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path

import podium
from podium import files
from podium.images.inventory import Inventory

NAME = "sbom.cdx.json"  # beside image.json


def write(path: Path, name: str, reference: str, inventory: Inventory) -> None:
    """Write the bill of what `inventory` lists, whole or not at all; the same inventory gives the same bytes."""
    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output.json import JsonV1Dot6
    from packageurl import PackageURL

    licences = LicenseFactory()

    def components(kind: str, packages: Mapping[str, str], namespace: str | None = None) -> list[Component]:
        return [
            Component(
                type=ComponentType.LIBRARY,
                name=package,
                version=version,
                bom_ref=f"{kind}:{package}",
                purl=PackageURL(type=kind, namespace=namespace, name=package, version=version),
                licenses=[licences.make_from_string(inventory.licences[package])]
                if kind == "pypi" and package in inventory.licences
                else [],
            )
            for package, version in packages.items()
        ]

    found = components("pypi", inventory.packages) + components("conda", inventory.conda_packages)
    if inventory.system_packages:
        found += components(inventory.system_kind, inventory.system_packages, inventory.distribution)
    image = Component(type=ComponentType.CONTAINER, name=name, version=reference, bom_ref="image")
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, reference), components=found)
    bom.metadata.timestamp = None
    bom.metadata.component = image
    bom.metadata.tools.components.add(
        Component(type=ComponentType.APPLICATION, name="podium", version=podium.__version__)
    )
    bom.register_dependency(image, found)
    files.write_text(path, JsonV1Dot6(bom).output_as_string(indent=1))
