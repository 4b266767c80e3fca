"""How the parts of kernels are compiled: functions that only other kernels call need no machine code of their own.

What a kernel calls is linked into it, optimised there together with it, and compiled to machine code there. Numba optimises and
compiles each part beforehand as well, which nobody uses: a sixth of the time of a first use. `PartCompiler` leaves it out. It is
given to Numba as `pipeline_class`, and relies on how Numba lowers functions and keeps libraries: where these are not as they were
(`PIPELINE` is then empty), parts are compiled as Numba does it, which takes longer and computes the same.
"""

from __future__ import annotations

from typing import Any

PIPELINE: dict[str, Any] = {}  # options of a part for `numba.njit`

try:
    import llvmlite.binding as ll
    from numba import _dynfunc
    from numba.core import caching, compiler
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler_machinery import register_pass
    from numba.core.typed_passes import NativeLowering

    class PartLibrary(JITCodeLibrary):
        """The code of a part, to be linked into others, which optimise it."""

        def _optimize_final_module(self) -> None: ...

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

        def serialize_using_object_code(self) -> Any:
            return self.serialize_using_bitcode()

        @classmethod
        def of_bitcode(cls, codegen: Any, name: str, bitcode: bytes) -> PartLibrary:
            """What was serialised."""
            library = cls(codegen, name)
            library._final_module = ll.parse_bitcode(bitcode)
            library._finalize_final_module()
            return library

    @register_pass(mutates_CFG=True, analysis_only=False)
    class PartLowering(NativeLowering):
        """Lowering into a `PartLibrary`, without an address at which Python could call it."""

        _name = "part_lowering"

        def run_pass(self, state: Any) -> bool:
            state.library = PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
            state.flags.no_compile = True
            super().run_pass(state)
            found = state["cr"]
            if found.env.consts:
                raise NotImplementedError(f"{state.func_id.func_qualname} uses Python objects: it has to be a whole kernel.")
            entry = not_called(state.library, found.fndesc, found.env)
            state.targetctx.insert_user_function(entry, found.fndesc, [state.library])
            state["cr"] = found._replace(cfunc=entry)
            return True

    class PartCompiler(compiler.CompilerBase):
        """The passes of `numba.njit`, with `PartLowering`."""

        def define_pipelines(self) -> list[Any]:
            manager = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
            passes = [(PartLowering if kind is NativeLowering else kind, about) for kind, about in manager.passes]
            ours = compiler.PassManager("part")
            for kind, about in passes:
                ours.add_pass(kind, about)
            ours.finalize()
            return [ours]

    class PartsOnDisk(caching.CompileResultCacheImpl):
        """How parts are kept in the cache on disk: as they are linked into others."""

        def rebuild(self, target_context: Any, payload: Any) -> Any:
            (name, kind, code), fndesc, environment, signature, objectmode, lifted, annotation, reload_init, envs = payload
            if kind != "bitcode":
                raise ValueError("this is not a part.")
            library = PartLibrary.of_bitcode(target_context.codegen(), name, code)
            return compiler.CompileResult(
                target_context=target_context, typing_context=target_context.typing_context, library=library,
                environment=environment, entry_point=not_called(library, fndesc, environment), fndesc=fndesc,
                type_annotation=annotation, signature=signature, objectmode=objectmode, lifted=lifted, typing_error=None,
                call_helper=None, metadata=None, reload_init=reload_init, referenced_envs=envs,
            )  # fmt: skip

    def not_called(library: Any, fndesc: Any, environment: Any) -> Any:
        """What stands for a part among Numba's entry points, as for every function without a wrapper for Python."""
        name, module = fndesc.qualname.rsplit(".", 1)[-1], fndesc.lookup_module()
        return _dynfunc.make_function(module, name, "a part of kernels", 0, environment, (library,))

    needed = ("_optimize_final_module", "_finalize_final_module", "_finalize_dynamic_globals", "serialize_using_bitcode")
    if all(hasattr(JITCodeLibrary, name) for name in needed):
        PIPELINE["pipeline_class"] = PartCompiler
except (ImportError, AttributeError):
    pass
