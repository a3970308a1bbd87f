"""set_packed: which weights are packed at load, and where all weights lie: the temporary tables `packed`, `weight_places`.

A kernel whose product has a matrix to pack (see `kernels.legality.packing_of`) reads it packed if in all its launches
that matrix is a weight that nothing reads otherwise, in a program that updates nothing that it is given. The query
decides; only the shapes come from the kernels' texts.
"""

from presk_db.kernels.legality import packing_of
from presk_db.kernels.parser import parse
from presk_db.store.emission import EmissionReader

_KERNELS = """
select distinct k.id, k.text from launches l join kernels k on k.id = l.kernel_id
where l.recording_id = :recording order by k.id
"""

_PACKED = """
with recursive uses as (
  select distinct l.kernel_id, v.buffer, b.role, p.kernel_id is not null as packable
  from launches l
  join launch_arguments a on a.recording_id = l.recording_id and a.operation = l.operation
  join views v on v.recording_id = a.recording_id and v.number = a.view
  join buffers b on b.recording_id = v.recording_id and b.number = v.buffer
  left join packable p on p.kernel_id = l.kernel_id and p.position = a.position
  where l.recording_id = :recording
), bad (kernel_id) as (
  select u.kernel_id
  from uses u
  where u.packable and (u.role <> 'weight' or exists (select 1 from updates y where y.recording_id = :recording) or exists (
    select 1
    from uses x
    left join packable q on q.kernel_id = x.kernel_id and x.packable
    join packable p on p.kernel_id = u.kernel_id
    where x.buffer = u.buffer and (not x.packable or q.k <> p.k or q.n <> p.n or q.down <> p.down)
  ))
  union
  select y.kernel_id
  from bad
  join uses x on x.kernel_id = bad.kernel_id and x.packable
  join uses y on y.buffer = x.buffer and y.packable
)
select p.kernel_id, u.buffer, p.k, p.n, p.down, p.across, p.elements
from packable p
join uses u on u.kernel_id = p.kernel_id and u.packable
where p.kernel_id not in (select kernel_id from bad)
order by p.kernel_id, u.buffer
"""

_PLACES = """
with sized as (
  select b.number, b.type, p.k, p.n, p.down, p.across, p.elements as matrix,
    case b.type when 'f64' then 8 when 'bf16' then 2 else 4 end as size,
    case when p.buffer is null then b.elements else b.elements / (p.k * p.n) * p.elements end as elements
  from buffers b
  left join (select distinct buffer, k, n, down, across, elements from packed) p on p.buffer = b.number
  where b.recording_id = :recording and b.role = 'weight'
)
select number, k, n, down, across, matrix, size, elements * size,
  coalesce(sum((elements * size + 63) / 64 * 64) over (
    order by number rows between unbounded preceding and 1 preceding
  ), 0)
from sized
order by number
"""

_SHAPE = "k integer, n integer, down integer, across integer"


def packed_kernels(reader: EmissionReader) -> frozenset[str]:
    """The digests of the recording's kernels whose right operand the program packs at load."""
    set_packed(reader)
    query = "select distinct k.digest from packed p join kernels k on k.id = p.kernel_id order by k.digest"
    return frozenset(str(row[0]) for row in reader.rows(query, {}))


def set_packed(reader: EmissionReader) -> None:
    """Fills the temporary tables.

    `packed`: kernel_id, buffer, k, n, down, across, elements: the kernel reads matrices (k, n) of the buffer packed, and a
    packed one has so many elements. `weight_places`: for each weight buffer the same, NULL where it is not packed
    (`matrix` for elements), the bytes of an element, its bytes and its offset in the memory of all weights.
    """
    packable = []
    for kernel_id, text in reader.rows(_KERNELS, {}):
        kernel = parse(text)
        p = packing_of(kernel)
        if p is not None:
            position = [a.name for a in kernel.arrays].index(p.array)
            packable.append((kernel_id, position, p.k, p.n, p.down, p.across, p.elements))
    reader.fill("packable", f"kernel_id integer, position integer, {_SHAPE}, elements integer", packable)
    reader.fill("packed", f"kernel_id integer, buffer integer, {_SHAPE}, elements integer", reader.rows(_PACKED, {}))
    columns = f"buffer integer, {_SHAPE}, matrix integer, size integer, bytes integer, byte_offset integer"
    reader.fill("weight_places", columns, reader.rows(_PLACES, {}))
