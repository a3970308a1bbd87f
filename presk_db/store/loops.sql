-- Runs of a fold's iterations that differ only in windows that move by a constant stride or are handed on.

-- Two neighbours: items of one fold with the same callee, one after the other, one layer apart.
create temp table pair (
  form integer, item integer, fold integer, direction integer, primary key (form, item)
) without rowid;

insert into pair
select a.form, a.number, a.fold, b.iteration - a.iteration
  from form_items a
  join form_items b on b.recording_id = a.recording_id and b.form = a.form and b.number = a.number + 1
 where a.recording_id = :r and b.fold = a.fold and b.callee = a.callee and abs(b.iteration - a.iteration) = 1;

-- How each argument goes from one to the next: by a stride within a slot; and, between locals that are alike, handed
-- on from another argument of the first (source), or to another argument of the second (target).
create temp table move (
  form integer, position integer, item integer, fold integer, direction integer, stride integer, carry text,
  primary key (form, position, item)
) without rowid;

create temp table given (
  form integer, item integer, position integer, slot_kind text, slot integer, offset integer, kind text,
  primary key (form, item, position)
) without rowid;

insert into given
select x.form, x.item, x.position, x.slot_kind, x.slot, x.offset, b.type || ' ' || b.elements
  from form_item_arguments x
  join forms f on f.recording_id = x.recording_id and f.number = x.form
  join form_items i on i.recording_id = x.recording_id and i.form = x.form and i.number = x.item
  left join call_locals l on l.recording_id = x.recording_id and l.call = f.call and x.slot_kind = 'local'
   and l.number = x.slot
  left join buffers b on b.recording_id = l.recording_id and b.number = l.buffer
 where x.recording_id = :r and i.fold is not null;

create index temp.given_slot on given (form, item, slot_kind, slot, offset, position);

insert into move
with stepped as (
  select p.form, x.position, p.item, p.fold, p.direction, x.slot_kind, x.slot, x.offset, y.slot_kind as next_kind,
         y.slot as next_slot, y.offset as next_offset, x.kind = y.kind and x.offset = y.offset as alike
    from pair p
    join given x on x.form = p.form and x.item = p.item
    join given y on y.form = p.form and y.item = p.item + 1 and y.position = x.position
)
select s.form, s.position, s.item, s.fold, s.direction,
       case when s.next_kind = s.slot_kind and s.next_slot = s.slot then s.next_offset - s.offset end,
       case when s.alike then coalesce(
         (select 'from ' || min(z.position) from given z
           where z.form = s.form and z.item = s.item and z.position <> s.position
             and z.slot_kind = 'local' and z.slot = s.next_slot and z.offset = s.next_offset),
         (select 'to ' || min(z.position) from given z
           where z.form = s.form and z.item = s.item + 1 and z.position <> s.position
             and z.slot_kind = 'local' and z.slot = s.slot and z.offset = s.offset)) end
  from stepped s;

-- How far a run that starts at an item can go, for the neighbours alone and for each argument: to the end of the
-- island of pairs that move in the same way.
create temp table reach (
  form integer, item integer, position integer, fold integer, strided integer, carried integer,
  primary key (form, item, position)
) without rowid;

insert into reach
with change as (
  select form, item, fold, direction, item - row_number() over (partition by form, fold, direction order by item) as island
    from pair
)
select form, item, -1, fold, max(item) over (partition by form, fold, direction, island) + 1, null
  from change;

insert into reach
with change as (
  select form, position, item, fold, direction, stride, carry,
         item - row_number() over (partition by form, position, fold, direction, stride order by item) as moving,
         item - row_number() over (partition by form, position, fold, direction, carry order by item) as handed
    from move
)
select form, item, position, fold,
       case when stride is not null then
         max(item) over (partition by form, position, fold, direction, stride, moving) + 1 end,
       case when carry is not null then
         max(item) over (partition by form, position, fold, direction, carry, handed) + 1 end
  from change;

create temp table far (form integer, item integer, last integer, primary key (form, item)) without rowid;

insert into far
select form, item, min(max(coalesce(strided, item), coalesce(carried, item))) from reach group by form, item;

-- From the fold's first item on: as far as all arguments reach, then from the next item again.
create temp table run (form integer, fold integer, first integer, last integer, primary key (form, first)) without rowid;

insert into run
with recursive start (form, fold, first) as (
  select form, fold, min(number) from form_items where recording_id = :r and fold is not null group by form, fold
  union all
  select s.form, s.fold, (
           select min(i.number) from form_items i
            where i.recording_id = :r and i.form = s.form and i.fold = s.fold
              and i.number > coalesce((select f.last from far f where f.form = s.form and f.item = s.first), s.first))
    from start s
   where s.first is not null
)
select s.form, s.fold, s.first, coalesce(f.last, s.first)
  from start s
  left join far f on f.form = s.form and f.item = s.first
 where s.first is not null;

insert into loops (recording_id, form, first_item, last_item, fold, first_iteration, last_iteration, callee)
select :r, r.form, r.first, r.last, r.fold, a.iteration, b.iteration, a.callee
  from run r
  join form_items a on a.recording_id = :r and a.form = r.form and a.number = r.first
  join form_items b on b.recording_id = :r and b.form = r.form and b.number = r.last
 where r.last > r.first
 order by r.form, r.first;

insert into loop_arguments (recording_id, form, first_item, position, kind, slot_kind, slot, offset, stride, source)
select :r, l.form, l.first_item, x.position,
       case when h.strided < l.last_item or h.strided is null then 'carried' when m.stride = 0 then 'fixed' else 'strided' end,
       x.slot_kind, x.slot, x.offset,
       case when h.strided >= l.last_item then m.stride else 0 end,
       case when (h.strided < l.last_item or h.strided is null) and m.carry like 'from %' then
         cast(substr(m.carry, 6) as integer) end
  from loops l
  join form_item_arguments x on x.recording_id = :r and x.form = l.form and x.item = l.first_item
  join move m on m.form = l.form and m.item = l.first_item and m.position = x.position
  join reach h on h.form = l.form and h.item = l.first_item and h.position = x.position
 where l.recording_id = :r
 order by l.form, l.first_item, x.position;
