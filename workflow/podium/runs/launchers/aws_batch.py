"""Launcher `aws_batch`: an attempt as one job of AWS Batch, on one node or as a multi-node parallel job.

Its nodes do not see our folder: the job fetches its data from S3, or has it mounted (FSx), and brings back what it left
by a signed address; `collect` puts that where every other launcher's job leaves it.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podium import files, manifest
from podium.config import System
from podium.errors import BadEnvironment, BadInput
from podium.runs.launchers import ENDED, JOB, UNKNOWN, Job, State, aws_requests, store
from podium.runs.launchers.aws_requests import Options

WEEK = 7 * 86_400  # seconds: the longest that a signed address may live


def options(system: System) -> Options:
    """The options of a system; raises BadInput where queue or store is missing."""
    if missing := {"queue", "store"} - system.aws_batch.keys():
        raise BadInput(
            f"system {system.name} cannot run on AWS Batch",
            "aws_batch.queue and aws_batch.store",
            f"no {', '.join(sorted(missing))}",
            "see config/README.md and profiles/aws/README.md",
        )
    return Options(**system.aws_batch)


@dataclass(frozen=True)
class AwsBatch:
    """The account and region that the environment's credentials are of."""

    options: Options

    @property
    def interval(self) -> float:
        return self.options.poll_seconds

    def submit(self, job: Job) -> str:
        """Register its definition, put its data into the store where that is new, start the job or find it."""
        if not (self.options.image or job.image):
            raise BadInput(
                "AWS Batch has no image to run",
                "an image in a registry that it reaches",
                "the locked one was not pushed",
                "podium push, or aws_batch.image in the config",
            )
        batch = self._client("batch")
        asked_before = (job.folder / JOB).exists()
        if not asked_before:
            store(job, "aws_batch", None)
        with _explained(job.name):
            id = self._find(batch, job.name) if asked_before else None
            if id is None:
                definition = self._definition(batch, aws_requests.definition(job, self.options))
                request = aws_requests.submission(
                    job, self.options, definition, self._data(job), self._signed(job.name)
                )
                id = batch.submit_job(**request)["jobId"]
        most = aws_requests.cost(self.options, job.nodes, job.minutes)
        store(job, "aws_batch", id, **({} if most is None else {"at_most_usd": round(most, 2)}))
        if most is not None:
            print(f"job {job.name}: at most {most:.2f} USD (aws_batch.price_per_hour)", file=sys.stderr)
        return id

    def states(self, ids: Sequence[str]) -> Mapping[str, State]:
        """One describe_jobs for each hundred; UNKNOWN of all where AWS does not answer, lost what it knows no more."""
        from botocore.exceptions import BotoCoreError, ClientError

        batch = self._client("batch")
        found: dict[str, State] = {}
        try:
            for some in aws_requests.chunks(ids):
                jobs = batch.describe_jobs(jobs=some)["jobs"]
                found |= {described["jobId"]: aws_requests.state(described) for described in jobs}
        except (BotoCoreError, ClientError) as error:
            return dict.fromkeys(ids, State(UNKNOWN, told=str(error)))
        return {id: found.get(id, State(ENDED, "lost", "AWS Batch does not know the job")) for id in ids}

    def cancel(self, id: str, stacks: bool = False) -> None:
        """End this job and no other. There is no way in for a signal that would print stacks."""
        with _explained(id):
            self._client("batch").terminate_job(jobId=id, reason="terminated by podium")

    def collect(self, id: str, folder: Path) -> None:
        """Unpack what the job brought back into the attempt's folder; nothing where it could bring nothing back."""
        from botocore.exceptions import ClientError

        name = files.read_json(folder / JOB)["name"]
        bucket, prefix = aws_requests.bucket(self.options)
        try:
            body = self._client("s3").get_object(Bucket=bucket, Key=f"{prefix}{name}/result.tar.gz")["Body"].read()
        except ClientError as error:
            if error.response["Error"]["Code"] in ("NoSuchKey", "404"):
                return
            raise BadEnvironment(
                f"what {name} left cannot be had", self.options.store, str(error), "the same command again"
            ) from error
        with tarfile.open(fileobj=io.BytesIO(body)) as tar:
            tar.extractall(folder, filter="data")

    def _find(self, batch: Any, name: str) -> str | None:
        """The job of that name: names are of one attempt alone."""
        listed = batch.list_jobs(jobQueue=self.options.queue, filters=[{"name": "JOB_NAME", "values": [name]}])
        found = [item["jobId"] for item in listed["jobSummaryList"] if item["jobName"] == name]
        return found[0] if found else None

    def _definition(self, batch: Any, request: Mapping[str, Any]) -> str:
        name = request["jobDefinitionName"]
        known = batch.describe_job_definitions(jobDefinitionName=name, status="ACTIVE")["jobDefinitions"]
        return known[0]["jobDefinitionArn"] if known else batch.register_job_definition(**request)["jobDefinitionArn"]

    def _data(self, job: Job) -> str:
        """A signed address of the list of the data's files, each with a signed address of its own; "" where mounted.

        The data is put into the store once, by its manifest's hash.
        """
        if self.options.data_path or job.data is None:
            return ""
        client = self._client("s3")
        bucket, prefix = aws_requests.bucket(self.options)
        content = manifest.read(job.data)
        place = f"{prefix}data/{content.sha256}/"
        self._put_data(client, bucket, place, job.data, content)
        lines = []
        for item in content.files:
            url = self._url(client, "get_object", bucket, place + item.path)
            lines.append(json.dumps({"url": url, "path": item.path, "bytes": item.bytes}))
        key = f"{prefix}{job.name}/data.jsonl"
        client.put_object(Bucket=bucket, Key=key, Body="\n".join(lines).encode())
        return self._url(client, "get_object", bucket, key)

    def _put_data(self, client: Any, bucket: str, place: str, data: Path, content: manifest.Manifest) -> None:
        done = f"{place}{manifest.NAME}"
        if client.list_objects_v2(Bucket=bucket, Prefix=done, MaxKeys=1).get("KeyCount"):
            return
        for item in content.files:
            client.upload_file(str(data / item.path), bucket, place + item.path)
        client.upload_file(str(data / manifest.NAME), bucket, done)  # last: it says that all is there

    def _signed(self, name: str) -> str:
        bucket, prefix = aws_requests.bucket(self.options)
        return self._url(self._client("s3"), "put_object", bucket, f"{prefix}{name}/result.tar.gz")

    def _url(self, client: Any, what: str, bucket: str, key: str) -> str:
        return client.generate_presigned_url(what, Params={"Bucket": bucket, "Key": key}, ExpiresIn=WEEK)

    def _client(self, service: str) -> Any:
        import boto3
        from botocore.config import Config

        # Signed addresses of version 4 leave the type of the content open, and are the only ones of newer regions.
        signing = Config(signature_version="s3v4") if service == "s3" else None
        return boto3.client(service, region_name=self.options.region, config=signing)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """AWS's no, as an error that says what to do."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        raise BadInput(
            f"AWS refuses {name}", "a request that the account allows", str(error), "aws_batch in the config"
        ) from error
    except BotoCoreError as error:
        raise BadEnvironment(
            f"AWS does not answer for {name}",
            "credentials, a region, an endpoint",
            str(error),
            "the same command again",
        ) from error
