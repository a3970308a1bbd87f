% for f in forms:
/* ${f.source | c_comment}: called ${f.uses}. */
static void ${f.name}(
% for p in form_parameters[f.form]:
    ${p.ctype} *${p.name}${"" if loop.last else ","} /* ${p.shape} */
% endfor
)
{
% for p in form_unused.get(f.form, []):
    (void)${p.name};
% endfor
% for v in form_locals.get(f.form, []):
    ${v.ctype} *${v.name} = (${v.ctype} *)${v.place}; /* ${v.shape} */
% endfor
% for item in form_steps.get(f.form, {}).values():
% if item[0].iterations:
% for a in item:
% if a.turn:
    ptrdiff_t turn_${a.item}_${a.position} = ${a.phase};
% endif
% endfor
    for (ptrdiff_t l = 0; l < ${item[0].iterations}; l++) { /* layers ${item[0].first_iteration} to ${item[0].last_iteration} */
${c_call("        ", item[0].function, [a.argument for a in item])}
% for a in item:
% if a.turn:
        turn_${a.item}_${a.position} = turn_${a.item}_${a.position} + 1 == ${a.turn} ? 0 : turn_${a.item}_${a.position} + 1;
% endif
% endfor
    }
% else:
${c_call("    ", item[0].function, [a.argument for a in item])}
% endif
% endfor
}

% endfor
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
% for f in forms[-1:]:
${c_call("    ", f.name, [p.given for p in form_parameters[f.form]])}
% endfor
}
