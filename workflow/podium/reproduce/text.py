"""What is found and planned, as tables and pages for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from podium.reproduce.compare import Comparison
from podium.reproduce.discover import Tree
from podium.reproduce.plan import Known, Plan
from podium.reproduce.replan import Replan
from podium.reproduce.statistics import Ratio


def listed(tree: Tree, known: Mapping[str, Known], made: Mapping[str, Plan]) -> dict[str, Any]:
    """The tree as JSON: implementations and results, each result with the implementation that most likely made it."""
    return {
        "implementations": [
            {
                "submitter": item.submitter,
                "benchmark": item.benchmark,
                "path": item.path,
                "style": item.style.name,
                "ways": [way.name for way in item.ways],
                "code": item.code.path.as_posix(),
                "runnable": not item.refused,
                "why": item.refused,
                "image": item.image.reference,
                "image_kind": item.image.kind,
                "bases": list(item.image.bases),
                "configs": list(item.configs),
            }
            for item in tree.implementations
        ],
        "results": [
            {
                "submitter": item.result.submitter,
                "system": item.result.system,
                "benchmark": item.result.benchmark,
                "division": item.description.get("division", ""),
                "nodes": item.nodes,
                "accelerators_per_node": item.gpus,
                "accelerator": item.description.get("accelerator_model_name", ""),
                "runs": len(item.result.logs),
                "required": known[item.result.name].required,
                "score_minutes": known[item.result.name].score,
                "batch_size": known[item.result.name].batch_size,
                "trouble": list(item.trouble),
                **made[item.result.name],
            }
            for item in tree.results
        ],
    }


def table(answer: Mapping[str, Any]) -> str:
    """The tree for a terminal: results, then implementations that nobody can run."""
    lines = [f"{'nodes':>5} {'acc.':>4} {'minutes':>9} {'runs':>5}  {'style':9} result; implementation, config"]
    for row in answer["results"]:
        minutes = "-" if row["score_minutes"] is None else f"{row['score_minutes']:.3f}"
        sizes = f"{row['nodes']:>5} {row['accelerators_per_node']:>4} {minutes:>9} {row['runs']:>5}"
        name = f"{row['submitter']}/{row['system']}/{row['benchmark']}"
        lines.append(f"{sizes}  {row['style']:9} {name}; {row['implementation'] or 'no code'}, {row['config'] or '-'}")
        lines += [f"{'':37}{item}" for item in row["trouble"]]
    refused = [item for item in answer["implementations"] if not item["runnable"]]
    count = f"{len(answer['implementations'])} implementations, {len(refused)} not runnable"
    lines += ["", f"{count}:" if refused else count]
    lines += [f"  {item['path']}: {item['why']}" for item in refused]
    return "\n".join(lines)


def plans(found: Sequence[Plan]) -> str:
    """One plan in full; of several a line each."""
    if len(found) == 1:
        return "\n".join(page(found[0]))
    lines = []
    for item in found:
        name = f"{item.submitter}/{item.system or '-'}/{item.benchmark}"
        if item.refused:
            lines.append(f"refused  {name}: {item.refused}")
            continue
        size = f"{item.wants.nodes}x{item.wants.gpus}"
        hours = "-" if item.expected.hours is None else f"{item.expected.hours:.2f} h"
        lines.append(
            f"planned  {name}: {item.style}, {size}, {item.config or 'no config'}, {hours}, {item.implementation}"
        )
    refused = sum(bool(item.refused) for item in found)
    return "\n".join([*lines, "", f"{len(found) - refused} planned, {refused} refused"])


def page(plan: Plan) -> Iterator[str]:
    """A plan line by line."""
    yield f"{plan.submitter}/{plan.system or '-'}/{plan.benchmark}"
    if plan.refused:
        yield f"  refused        {plan.refused}"
    yield f"  implementation {plan.implementation}" + (f" ({', '.join(plan.chosen)})" if plan.chosen else "")
    if plan.refused:
        return
    yield f"  style          {plan.style}; starts in {plan.code}"
    yield f"  config         {plan.config or 'none'}, {len(plan.exports)} variables"
    yield f"  image          {plan.image.kind} {plan.image.reference}" + "".join(
        f", from {x}" for x in plan.image.bases
    )
    wants, mine = plan.wants, plan.mine
    yield f"  needs          {wants.nodes} nodes x {wants.gpus} {wants.accelerator or 'accelerators'}"
    if mine:
        yield f"  mine           {mine.nodes} nodes x {mine.gpus} {mine.accelerator or 'accelerators'}"
    yield from (f"  LACKS          {item}" for item in plan.lacks)
    for need in plan.data:
        state = "prepared" if need.prepared else f"missing: {need.command}"
        yield f"  data           {need.variable} -> {need.target or 'host'}: {need.files or 'unknown layout'}; {state}"
    counts = f"{plan.runs} of {plan.required} required ({plan.published} published)"
    yield f"  runs           {counts}, {plan.limit_minutes} minutes at most"
    time = plan.expected
    if time.minutes is not None:
        cost = "" if time.cost is None else f", costs {time.cost:.2f}"
        whole = f"all {time.hours:.2f} h, {time.accelerator_hours:.2f} device hours{cost}"
        yield f"  time           {time.minutes:.2f} minutes a run; {whole}"
    yield from (
        f"  differs {item.rank:<7}{item.field}: {item.theirs} | {item.mine} ({item.why})" for item in plan.differences
    )
    yield from (f"  note           {item}" for item in plan.notes)
    yield "  by hand"
    yield from (f"    {line}" for line in plan.commands)


def replanned(answer: Replan) -> str:
    """The options for other hardware."""
    lines = [f"on {answer.nodes} nodes x {answer.gpus}, the model divided over {answer.divided} devices:"]
    if answer.refused:
        return "\n".join([*lines, f"  refused: {answer.refused}"])
    for item in answer.options:
        steps = f"{item.replicas} replicas x {item.device_batch} x {item.accumulation} steps"
        set_ = " ".join(f"{name}={value}" for name, value in item.set.items())
        lines.append(f"  global batch {item.batch_size} = {steps}: RCP {item.rcp} (mean {item.mean:g}); {set_}")
        lines += [f"    {item.note}"] if item.note else []
    return "\n".join(lines)


def compared(found: Comparison) -> str:
    """The verdict and what it rests on."""
    lines = [f"{found.mine['name']} against {found.theirs['name']}, {found.benchmark} {found.round}: {found.sentence}"]
    lines += [f"  because        {reason}" for reason in found.reasons]
    for name, ratio in (("time of an epoch", found.speed), ("epochs to target", found.convergence),
                        ("time to train", found.time), ("throughput", found.throughput)):  # fmt: skip
        lines.append(f"  {name:<16} {_ratio(ratio)}")
    for side in (found.theirs, found.mine):
        score = "no score" if side["score"] is None else f"olympic mean {side['score']:.4f} minutes"
        interval = side["score_interval"]
        between = f", {interval[0]:.4f} to {interval[1]:.4f}" if interval else ""
        lines.append(f"  {side['name']:<16} {side['converged']} of {side['runs']} runs converged, {score}{between}")
    lines.append(f"  RCP of mine      {found.rcp['answer']}: {found.rcp['message']}")
    lines += [f"  fell back        {item['what']} ({item['where']}); {item['do']}" for item in found.fallbacks]
    lines += [
        f"  differs {item.rank:<8} {item.field}: {item.theirs} | {item.mine} ({item.why})" for item in found.differences
    ]
    return "\n".join(lines)


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return "not known"
    low, high = 100 * (ratio.low - 1), 100 * (ratio.high - 1)
    return f"{ratio.percent:+.2f} % ({low:+.2f} to {high:+.2f} %), {ratio.answer}, TOST p {ratio.p:.3g}"
