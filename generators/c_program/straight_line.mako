/* Every operation of the recording, in order. */
void ${program.prefix}_run(const ${program.prefix}_weights *w, const ${program.prefix}_inputs *in,
    const ${program.prefix}_outputs *out, void *arena, int threads)
{
    (void)w;
    (void)in;
    (void)out;
    (void)arena;
    PRESK_RUN_BEGINS(arena, (size_t)${program.prefix.upper()}_ARENA_BYTES);
% for o in outputs:
    PRESK_RUN_WRITES(${o.place.replace(".", "->")}, ${o.bytes});
% endfor
    k_team((unsigned char *)arena + INT64_C(${sizes[0].arena_bytes}), threads < 1 ? 1 : threads);
% for o in operations.values():
${c_call("    ", o[0].kernel, [a.argument for a in o])}
% endfor
}
