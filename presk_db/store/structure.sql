-- What the levels of calls need, once for a recording: who calls whom, who owns which buffer, what each call does in
-- order. `:r` is the recording. All tables here are temporary; `level.sql` fills the lasting ones.

-- Every call that launches something, with the number of levels of calls below it.
create temp table node (
  call integer primary key, parent integer, function integer, height integer, first integer, last integer,
  fold integer, iteration integer
);

insert into node
with recursive above (call, height) as (
  select number, 0 from calls where recording_id = :r and first_operation is not null
  union
  select c.parent, a.height + 1
    from above a
    join calls c on c.recording_id = :r and c.number = a.call
   where c.parent is not null
)
select c.number, c.parent, c.function, max(a.height), c.first_operation, c.last_operation, c.fold, c.iteration
  from above a
  join calls c on c.recording_id = :r and c.number = a.call
 group by c.number;

create index temp.node_height on node (height);

-- A temp is owned by the lowest call that holds all its uses: from the call of its first use, climb until the last.
create temp table owner (buffer integer primary key, call integer, number integer, first integer, last integer);

insert into owner
with recursive life as (
  select v.buffer, min(a.operation) as first, max(a.operation) as last, min(a.operation * 1048576 + a.position) as place
    from launch_arguments a
    join views v on v.recording_id = a.recording_id and v.number = a.view
    join buffers b on b.recording_id = v.recording_id and b.number = v.buffer
   where a.recording_id = :r and b.role = 'temp'
   group by v.buffer
), climb (buffer, call, until, last) as (
  select l.buffer, n.call, n.last, l.last
    from life l
    join operations o on o.recording_id = :r and o.number = l.first
    join node n on n.call = o.call
  union all
  select c.buffer, p.call, p.last, c.last
    from climb c
    join node n on n.call = c.call
    join node p on p.call = n.parent
   where c.until < c.last
)
select c.buffer, c.call, row_number() over (partition by c.call order by l.place) - 1, l.first, l.last
  from climb c
  join life l on l.buffer = c.buffer
 where c.until >= c.last;

insert into call_locals (recording_id, call, number, buffer, first_operation, last_operation)
select :r, call, number, buffer, first, last from owner order by call, number;

-- What a call does, in order: its own launches and the calls that it makes.
create temp table item (
  call integer, at integer, number integer, last integer, kind text, child integer, kernel_id integer, fold integer,
  iteration integer, primary key (call, at)
) without rowid;

insert into item
select call, at, row_number() over (partition by call order by at) - 1, last, kind, child, kernel_id, fold, iteration
  from (
    select o.call, o.number as at, o.number as last, 'launch' as kind, null as child, l.kernel_id,
           null as fold, null as iteration
      from operations o
      join launches l on l.recording_id = o.recording_id and l.operation = o.number
     where o.recording_id = :r
     union all
    select parent, first, last, 'call', call, null, fold, iteration from node where parent is not null
  );

-- The windows that an item of a call is given, in the order of its parameters; those of calls come level by level.
create temp table need (
  call integer, at integer, position integer, buffer integer, offset integer, stop integer, reads integer,
  writes integer, primary key (call, at, position)
) without rowid;

insert into need
select o.call, a.operation, a.position, v.buffer, v.offset, v.offset + v.elements, a.mode = 'in', a.mode = 'out'
  from launch_arguments a
  join operations o on o.recording_id = a.recording_id and o.number = a.operation
  join views v on v.recording_id = a.recording_id and v.number = a.view
 where a.recording_id = :r;

-- The first view of each window, whatever its shape.
create temp table seen (
  buffer integer, offset integer, elements integer, view integer, primary key (buffer, offset, elements)
) without rowid;

insert into seen
select buffer, offset, elements, min(number) from views where recording_id = :r group by buffer, offset, elements;

-- Scratch for one level.
create temp table spread (call integer, buffer integer, primary key (call, buffer)) without rowid;
create temp table want (
  call integer, buffer integer, offset integer, stop integer, reads integer, writes integer, place integer,
  primary key (call, buffer, offset, stop)
) without rowid;
create temp table argument (
  call integer, buffer integer, offset integer, stop integer, reads integer, writes integer, position integer,
  primary key (call, buffer, offset, stop)
) without rowid;
create temp table slot (
  call integer, at integer, position integer, kind text, slot integer, offset integer, reads integer, writes integer,
  primary key (call, at, position)
) without rowid;
create temp table line (call integer, at integer, text text, primary key (call, at)) without rowid;
create temp table formed (call integer primary key, text text);
