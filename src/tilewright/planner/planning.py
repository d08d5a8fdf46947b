"""From a Request to a Plan, or to a RangePlan: choose, compile and load."""

from collections.abc import Callable
from typing import Any

from tilewright.arrays import describe
from tilewright.backends.protocol import Executable
from tilewright.errors import UnavailableError
from tilewright.jit.cache import build, in_memory
from tilewright.jit.compile import CompiledKernel
from tilewright.jit.source import TranslationUnit
from tilewright.kernels.kernel import Launch
from tilewright.planner.ahead import prepare
from tilewright.planner.call_arguments import Arrays
from tilewright.planner.choose import Choice, choose
from tilewright.planner.column_sums import SummingExecutable
from tilewright.planner.family import Families, Member
from tilewright.planner.form import Form
from tilewright.planner.plan import Plan, Prepared
from tilewright.planner.range_plan import RangePlan, problems_of, refuse_others, with_scales_of
from tilewright.planner.request import Request
from tilewright.planner.slots import OUT, A, Slot, out_allocator, with_out
from tilewright.problem import cuts_k


def plan_of(request: Request, choice: Choice | None = None) -> Plan:
    """The Plan of a request, with a choice that was made for it before, if one was.

    Raises what `choose` and `build` raise. Nothing is compiled or loaded while a stream is captured: an
    UnavailableError then says so.
    """
    backend, binding, prepared = request.backend, request.binding, None
    if not request.problem.is_empty:
        if choice is None:
            choice = choose(request.problem, backend.hardware, kernel=request.kernel, config=request.config)
        if backend.name == "emulator":
            from tilewright.backends.emulation_limit import refuse_long_emulation

            refuse_long_emulation(choice.kernel, choice.config, choice.copied.problem, backend.hardware)
        *beside, launch = choice.launches(backend.hardware)
        compiled, executable = _loaded(launch, request)
        others = [_loaded(each, request)[1] for each in beside]
        ahead = others[: len(choice.copied.steps)]
        executable = choice.copied.before(executable, ahead, backend, launch.exchanged)
        if others[len(ahead) :]:
            executable = SummingExecutable(request.problem, executable, others[-1], backend)
        prepared = Prepared(choice, compiled, executable, launch.exchanged != binding.is_exchanged)
    (arrays, signatures, pointers, names), operands, allocate = request.call, request.operands, None
    if arrays[OUT] is None:
        allocate = out_allocator(arrays[A], operands["out"])
        out = allocate()
        arrays, signatures = with_out(arrays, out), with_out(signatures, describe(out, "out")[0])
    slots = [
        Slot.of(position, signature, operands[names[position]])
        for position, signature in enumerate(signatures)
        if signature is not None
    ]
    slots.sort(key=lambda slot: slot.position == OUT)
    runs, multiplies = prepared is not None, request.alpha != 0
    return Plan(
        Form(request.problem, backend, slots, arrays, multiplies=multiplies, runs=runs),
        request.problem,
        prepared,
        lambda: slots,
        pointers,
        alpha=request.alpha,
        beta=request.beta,
        allocate=allocate,
    )


def _loaded(launch: Launch, request: Request) -> tuple[CompiledKernel, Executable]:
    """A launch's kernel, compiled and loaded; what is not yet there must not be missing while a stream is captured."""
    backend = request.backend
    compiled = in_memory(launch.source, backend.arch)
    if compiled is None or not backend.has_loaded(compiled):
        _refuse_while_capturing(request)
        compiled = build(launch.source, backend.arch)
    return compiled, backend.prepare(compiled, launch.shape, launch.arguments)


def range_plan_of(
    request: Request, rows: range, call_of: Callable[..., Arrays], request_of: Callable[[Arrays, Any], Request]
) -> RangePlan:
    """The RangePlan of requests like this one with so many rows.

    `call_of` reads the arrays of a call, and `request_of` makes a Request of them for a stream. Everything that it
    needs is compiled, several kernels at once, and loaded. Raises the error of one that fails, and an UnavailableError
    while a stream is captured.
    """
    backend = request.backend
    launches: dict[TranslationUnit, Launch] = {}
    choices: dict[int, Choice] = {}
    alike: dict[tuple[Any, ...], Choice] = {}
    reasons: dict[int, tuple[str, ...]] = {}
    multiplies = request.alpha != 0
    for number, problem in zip(rows, problems_of(request.operands, rows, request.problem, multiplies), strict=True):
        if not problem.is_empty:
            choice = choose(problem, backend.hardware)
            reasons[number] = choice.reasons
            launches |= {launch.source: launch for launch in choice.launches(backend.hardware)}
            if not choice.copied.copies:  # then it differs from those for other rows in its problem alone
                choice = alike.setdefault((choice.kernel, choice.config, choice.origin, choice.refusals), choice)
            choices[number] = choice
    known = {source: in_memory(source, backend.arch) for source in launches}
    if any(compiled is None or not backend.has_loaded(compiled) for compiled in known.values()):
        _refuse_while_capturing(request)
    ahead = prepare(launches, backend.arch)
    for error in ahead.failures.values():
        raise error
    for source, compiled in ahead.kernels.items():
        backend.prepare(compiled, launches[source].shape, launches[source].arguments)

    families = Families(choices)

    def make(number: int, *arrays: Any, stream: Any) -> tuple[Plan, bool]:
        call = call_of(*arrays)
        member = Member.of(call)
        family = member and families.find(member)
        if member and family:
            made = family.plan(member, alpha=request.alpha, beta=request.beta, stream=stream)
            if made is not None:
                return made, family.has_met(number)
        of_call = request_of(call, stream)
        (expected,) = problems_of(request.operands, range(number, number + 1), request.problem, multiplies)
        expected = with_scales_of(of_call.problem, expected)
        refuse_others(of_call.problem, expected)
        # Better alignment is allowed, and would lead to another kernel.
        of_call = of_call._replace(binding=of_call.binding._replace(problem=expected))
        choice = choices.get(number)
        made = plan_of(of_call, choice and choice.resized(expected, backend.hardware))
        if member:
            families.add(member, of_call, made)
        return made, True

    return RangePlan(rows, len(launches), reasons, make, apart=cuts_k(request.problem.recipe))


def _refuse_while_capturing(request: Request) -> None:
    if request.is_capturing():
        raise UnavailableError(
            "the current stream is being captured into a CUDA graph, and a plan for these operands would have to be "
            "compiled and loaded: call tilewright.plan, or matmul once, before the capture"
        )
