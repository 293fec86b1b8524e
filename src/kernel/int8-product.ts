/**
 * The product of 16-bit rows and 8-bit columns, in WebAssembly with vectors of 128 bits: whole numbers, so the same on every
 * machine. `left` has `rows` rows of `depth` values and `right` has `columns` columns of `depth` values, each one after the
 * other; `out` takes `rows` by `columns` 32-bit sums. All three are offsets in bytes. `columns` is a multiple of 2 and `depth`
 * of 32, and no sum may exceed 31 bits. Rows are taken four at a time, which is fastest, and those that are left by two and one.
 */
type Int8Product = (left: number, right: number, out: number, rows: number, columns: number, depth: number) => void

const LEFT = 0
const RIGHT = 1
const OUT = 2
const ROWS = 3
const COLUMNS = 4
const DEPTH = 5
const COLUMN = 6
const ROW = 7
const RIGHT_AT = 8
const RIGHT_END = 9
const TARGET = 10
const ROW_BYTES = 11
const LEFT_AT = [12, 13, 14, 15] as const
/** Of the first column for each of four rows, then of the second. */
const SUMS = [16, 17, 18, 19, 20, 21, 22, 23] as const
const WEIGHTS = [24, 25] as const
const VALUES = 26
/** As many of the rows as can be taken four at a time, and two at a time. */
const [ROWS_IN_FOURS, ROWS_IN_TWOS] = [27, 28]
const COLUMN_PAIR = [0, 1] as const
type RowNumbers = readonly (0 | 1 | 2 | 3)[]

const I32 = 0x7f
const V128 = 0x7b

const get = (local: number): number[] => [0x20, local]
const set = (local: number): number[] => [0x21, local]
const constant = (value: number): number[] => [0x41, ...(value < 64 ? [value] : [(value & 127) | 128, value >>> 7])]
const add = [0x6a]
const multiply = [0x6c]
const isBelow = [0x49]
const inFours = [0x41, 0x7c, 0x71]
const inTwos = [0x41, 0x7e, 0x71]
const end = [0x0b]
const advance = (local: number, by: number[]): number[] => [...get(local), ...by, ...add, ...set(local)]
/** A loop that runs its body at least once, and again while `left` is below `right`. */
const repeat = (body: number[], left: number, right: number): number[] => [
  ...[0x03, 0x40],
  ...body,
  ...get(left),
  ...get(right),
  ...isBelow,
  ...[0x0d, 0],
  ...end,
]
/** The same loop, which does not run at all if `left` is not below `right`. */
const repeatIfBelow = (body: number[], left: number, right: number): number[] => [
  ...get(left),
  ...get(right),
  ...isBelow,
  ...[0x04, 0x40],
  ...repeat(body, left, right),
  ...end,
]
const zeroVector = [0xfd, 0x0c, ...new Array<number>(16).fill(0)]
const loadVector = (offset: number): number[] => [0xfd, 0x00, 0, offset]
/** Eight bytes with their signs, widened to 16 bits each. */
const loadWidened = (offset: number): number[] => [0xfd, 0x01, 0, offset]
const dotVectors = [0xfd, 0xba, 0x01]
const addVectors = [0xfd, 0xae, 0x01]
const lane = (index: number): number[] => [0xfd, 0x1b, index]

const innerStep = (step: number, rows: RowNumbers): number[] => [
  ...[...get(RIGHT_AT), ...loadWidened(8 * step), ...set(WEIGHTS[0])],
  ...[...get(RIGHT_AT), ...get(DEPTH), ...add, ...loadWidened(8 * step), ...set(WEIGHTS[1])],
  ...rows.flatMap((row) => [
    ...[...get(LEFT_AT[row]), ...loadVector(16 * step), ...set(VALUES)],
    ...COLUMN_PAIR.flatMap((column) => {
      const sum = SUMS[4 * column + row]!
      return [...get(sum), ...get(WEIGHTS[column]), ...get(VALUES), ...dotVectors, ...addVectors, ...set(sum)]
    }),
  ]),
]

const sumOf = (local: number): number[] =>
  [0, 1, 2, 3].flatMap((index) => [...get(local), ...lane(index), ...(index === 0 ? [] : add)])

const storeSums = (row: number): number[] => [
  ...COLUMN_PAIR.flatMap((column) => [...get(TARGET), ...sumOf(SUMS[4 * column + row]!), 0x36, 2, 4 * column]),
  ...advance(TARGET, [...get(COLUMNS), ...constant(4), ...multiply]),
]

const takeRows = (rows: RowNumbers): number[] => [
  ...[...get(LEFT), ...get(ROW), ...get(ROW_BYTES), ...multiply, ...add, ...set(LEFT_AT[0])],
  ...rows.slice(1).flatMap((row) => [...get(LEFT_AT[row - 1]!), ...get(ROW_BYTES), ...add, ...set(LEFT_AT[row]!)]),
  ...rows.flatMap((row) => COLUMN_PAIR.flatMap((column) => [...zeroVector, ...set(SUMS[4 * column + row]!)])),
  ...[...get(RIGHT), ...get(COLUMN), ...get(DEPTH), ...multiply, ...add, ...set(RIGHT_AT)],
  ...[...get(RIGHT_AT), ...get(DEPTH), ...add, ...set(RIGHT_END)],
  ...repeat(
    [
      ...[0, 1, 2, 3].flatMap((step) => innerStep(step, rows)),
      ...rows.flatMap((row) => advance(LEFT_AT[row], constant(64))),
      ...advance(RIGHT_AT, constant(32)),
    ],
    RIGHT_AT,
    RIGHT_END,
  ),
  ...[...get(ROW), ...get(COLUMNS), ...multiply, ...get(COLUMN), ...add, ...constant(4), ...multiply],
  ...[...get(OUT), ...add, ...set(TARGET)],
  ...rows.flatMap(storeSums),
  ...advance(ROW, constant(rows.length)),
]

const functionBody = (): number[] => [
  ...[3, 10, I32, 11, V128, 2, I32],
  ...[...get(DEPTH), ...constant(2), ...multiply, ...set(ROW_BYTES)],
  ...[...get(ROWS), ...inFours, ...set(ROWS_IN_FOURS)],
  ...[...get(ROWS), ...inTwos, ...set(ROWS_IN_TWOS)],
  ...repeat(
    [
      ...[...constant(0), ...set(ROW)],
      ...repeatIfBelow(takeRows([0, 1, 2, 3]), ROW, ROWS_IN_FOURS),
      ...repeatIfBelow(takeRows([0, 1]), ROW, ROWS_IN_TWOS),
      ...repeatIfBelow(takeRows([0]), ROW, ROWS),
      ...advance(COLUMN, constant(2)),
    ],
    COLUMN,
    COLUMNS,
  ),
  ...end,
]

/** A number in base 128, least significant first. */
function leb(value: number): number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...leb(value >>> 7)]
}
const section = (id: number, content: number[]): number[] => [id, ...leb(content.length), ...content]

const moduleBytes = (body: readonly number[]): Uint8Array =>
  Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, [1, 0x60, 6, I32, I32, I32, I32, I32, I32, 0]),
    ...section(2, [1, 1, 0x6d, 1, 0x6d, 2, 0, 1]),
    ...section(3, [1, 0]),
    ...section(7, [1, 1, 0x66, 0, 0]),
    ...section(10, [1, ...leb(body.length), ...body]),
  ])

/** Node has it, the types that we compile with do not. */
declare const WebAssembly: Readonly<{
  Memory: new (size: Readonly<{ initial: number }>) => Readonly<{ buffer: ArrayBuffer }>
  Module: new (bytes: Uint8Array) => object
  Instance: new (made: object, imports: object) => Readonly<{ exports: Readonly<Record<string, unknown>> }>
}>

const PAGE_BYTES = 65_536

/** The product over a memory of at least so many bytes, all zero. */
export function createInt8Product(bytes: number): Readonly<{ buffer: ArrayBuffer; multiply: Int8Product }> {
  const memory = new WebAssembly.Memory({ initial: Math.ceil(bytes / PAGE_BYTES) })
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(moduleBytes(functionBody())), {
    m: { m: memory },
  })
  return { buffer: memory.buffer, multiply: exports['f'] as Int8Product }
}
