-- Arguments and forms of all calls of one height, `:height`; those below have theirs already.

-- The buffers on which the iterations of a fold use different windows: the call is given one window that spans them.
delete from spread;

insert into spread
select distinct d.call, d.buffer
  from node n
  join item i on i.call = n.call and i.fold is not null
  join need d on d.call = i.call and d.at = i.at
 where n.height = :height
 group by d.call, i.fold, d.position, d.buffer
having min(d.offset) < max(d.offset);

-- The windows that a call needs and does not own, with the place where each comes first.
delete from want;

insert into want
select d.call, d.buffer,
       case when s.call is null then d.offset else min(d.offset) end,
       case when s.call is null then d.stop else max(d.stop) end,
       max(d.reads), max(d.writes), min(d.at * 1048576 + d.position)
  from node n
  join need d on d.call = n.call
  left join owner o on o.buffer = d.buffer
  left join spread s on s.call = d.call and s.buffer = d.buffer
 where n.height = :height and (o.call is null or o.call <> d.call)
 group by d.call, d.buffer, case when s.call is null then d.offset end, case when s.call is null then d.stop end;

-- Its arguments: the windows that no larger one holds, in order of first appearance.
delete from argument;

insert into argument
select w.call, w.buffer, w.offset, w.stop, max(c.reads), max(c.writes),
       row_number() over (partition by w.call order by min(c.place), w.offset) - 1
  from want w
  join want c on c.call = w.call and c.buffer = w.buffer and c.offset >= w.offset and c.stop <= w.stop
 where not exists (
   select 1
     from want x
    where x.call = w.call and x.buffer = w.buffer and x.offset <= w.offset and x.stop >= w.stop
      and (x.offset < w.offset or x.stop > w.stop))
 group by w.call, w.buffer, w.offset, w.stop;

insert into call_arguments (recording_id, call, position, buffer, offset, elements, mode, view)
select :r, a.call, a.position, a.buffer, a.offset, a.stop - a.offset,
       case when a.reads and a.writes then 'both' when a.writes then 'write' else 'read' end,
       v.view
  from argument a
  left join seen v on v.buffer = a.buffer and v.offset = a.offset and v.elements = a.stop - a.offset
 order by a.call, a.position;

-- Every window that an item is given, as a slot: a local or an argument of the call, from an element on.
insert into slot
select d.call, d.at, d.position, 'local', o.number, d.offset, d.reads, d.writes
  from node n
  join need d on d.call = n.call
  join owner o on o.buffer = d.buffer and o.call = d.call
 where n.height = :height;

insert into slot
select d.call, d.at, d.position, 'argument', min(a.position), d.offset - a.offset, d.reads, d.writes
  from node n
  join need d on d.call = n.call
  join argument a on a.call = d.call and a.buffer = d.buffer and a.offset <= d.offset and a.stop >= d.stop
 where n.height = :height
 group by d.call, d.at, d.position;

-- The text of an item: the kernel's digest or the callee's form, then the slots, then the names of scalars.
delete from line;

insert into line
select i.call, i.at,
       case i.kind when 'launch' then 'launch ' || k.digest else 'call ' || f.form end
       || coalesce(' fold ' || case when i.fold is not null then dense_rank() over (partition by i.call, i.fold is null order by i.fold) - 1 end || ' ' || i.iteration, '')
       || coalesce(' ' || s.text, '') || coalesce(' ' || c.text, '')
  from node n
  join item i on i.call = n.call
  left join kernels k on k.id = i.kernel_id
  left join call_forms f on f.recording_id = :r and f.call = i.child
  left join (
    select call, at,
           group_concat(case kind when 'local' then 'l' else 'a' end || slot || case offset when 0 then '' else '+' || offset end, ' ')
             as text
      from (select l.* from node m join slot l on l.call = m.call where m.height = :height
             order by l.call, l.at, l.position)
     group by call, at
  ) s on s.call = i.call and s.at = i.at
  left join (
    select operation, group_concat(name, ' ') as text
      from (select operation, name from launch_scalars where recording_id = :r order by operation, position)
     group by operation
  ) c on i.kind = 'launch' and c.operation = i.at
 where n.height = :height;

-- The text of a call: its function, its locals by first definition, its items in order.
delete from formed;

insert into formed
select n.call,
       'function ' || g.name || coalesce(char(10) || o.text, '') || char(10) || t.text
  from node n
  join functions g on g.recording_id = :r and g.number = n.function
  join (select call, group_concat(text, char(10)) as text
          from (select call, at, text from line order by call, at) group by call) t on t.call = n.call
  left join (
    select call, group_concat('local ' || number || ' ' || type || ' ' || elements, char(10)) as text
      from (select l.call, l.number, b.type, b.elements
              from node m
              join call_locals l on l.recording_id = :r and l.call = m.call
              join buffers b on b.recording_id = :r and b.number = l.buffer
             where m.height = :height
             order by l.call, l.number)
     group by call
  ) o on o.call = n.call
 where n.height = :height;

-- Equal texts are one form, shown by its first call.
insert into forms (recording_id, number, height, function, call, text)
select :r, (select count(*) from forms where recording_id = :r) + row_number() over (order by f.call) - 1,
       :height, n.function, f.call, f.text
  from (select min(call) as call, text from formed group by text) f
  join node n on n.call = f.call
 order by f.call;

insert into call_forms (recording_id, call, form)
select :r, c.call, f.number
  from (select call, min(call) over (partition by text) as first from formed) c
  join forms f on f.recording_id = :r and f.height = :height and f.call = c.first
 order by c.call;

-- What the callers of these calls give them.
insert into need
select n.parent, n.first, a.position, a.buffer, a.offset, a.stop, a.reads, a.writes
  from node n
  join argument a on a.call = n.call
 where n.height = :height and n.parent is not null;
