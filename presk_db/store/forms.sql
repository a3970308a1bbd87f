-- What a form does, read off its first call, once all levels are done.

insert into form_items (recording_id, form, number, kind, start, length, kernel_id, callee, fold, iteration)
select :r, f.number, i.number, i.kind, i.at - n.first, i.last - i.at + 1, i.kernel_id, c.form, i.fold, i.iteration
  from forms f
  join node n on n.call = f.call
  join item i on i.call = f.call
  left join call_forms c on c.recording_id = :r and c.call = i.child
 where f.recording_id = :r
 order by f.number, i.number;

insert into form_item_arguments (recording_id, form, item, position, slot_kind, slot, offset, mode)
select :r, f.number, i.number, s.position, s.kind, s.slot, s.offset,
       case when s.reads and s.writes then 'both' when s.writes then 'write' else 'read' end
  from forms f
  join item i on i.call = f.call
  join slot s on s.call = i.call and s.at = i.at
 where f.recording_id = :r
 order by f.number, i.number, s.position;

insert into form_scalars (recording_id, form, position, name)
select :r, form, row_number() over (partition by form order by place) - 1, name
  from (select f.number as form, s.name, min(s.operation * 1048576 + s.position) as place
          from forms f
          join node n on n.call = f.call
          join launch_scalars s on s.recording_id = :r and s.operation between n.first and n.last
         where f.recording_id = :r
         group by f.number, s.name)
 order by form, place;
