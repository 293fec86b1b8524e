/** A value that is stored in another form than it has in the program. */
type CellOf<Row, Value> = {
  [Column in keyof Row & string]: Readonly<{
    column: Column
    write(value: Value): Row[Column]
    read(stored: Row[Column]): Value
  }>
}[keyof Row & string]

/** The columns that take the value as it is. */
type ColumnOf<Row, Value> = {
  [Column in keyof Row & string]: Value extends Row[Column] ? Column : never
}[keyof Row & string]

type FieldsOf<Row, Item> = Readonly<{ [Name in keyof Item]-?: ColumnOf<Row, Item[Name]> | CellOf<Row, Item[Name]> }>

type ColumnsIn<Fields> = {
  [Name in keyof Fields]: Fields[Name] extends string
    ? Fields[Name]
    : Fields[Name] extends Readonly<{ column: infer Column }>
      ? Column
      : never
}[keyof Fields]

/** Fails to compile, and names the columns, if a column of the row has no field. */
type Complete<Row, Fields> =
  Exclude<keyof Row, ColumnsIn<Fields> | 'tenant'> extends never
    ? unknown
    : Readonly<{ missing: Exclude<keyof Row, ColumnsIn<Fields> | 'tenant'> }>

type RowMap<Row, Item> = Readonly<{
  /** `tenant` and the columns of the fields, in their order. */
  columns: readonly (keyof Row & string)[]
  toRow(tenant: string, item: Item): Row
  fromRow(row: Row): Item
  /** For a row that may not exist. */
  found(row: Row | undefined): Item | undefined
}>

/**
 * How the items of a store are stored: each field is named once, with its column, and both directions follow from that. `Row`
 * has only the columns of fields; the store itself writes others, such as a key for a search.
 */
export const rowMap =
  <Row extends Readonly<{ tenant: string }>, Item extends object>() =>
  <const Fields extends FieldsOf<Row, Item>>(fields: Fields & Complete<Row, Fields>): RowMap<Row, Item> => {
    type Cell = Readonly<{ column: string; write?(value: unknown): unknown; read?(stored: unknown): unknown }>
    type Values = Record<string, unknown>
    const cells = Object.entries(fields as Readonly<Record<string, string | Cell>>).map(
      ([name, field]): Cell & Readonly<{ name: string }> =>
        typeof field === 'string' ? { name, column: field } : { name, ...field },
    )
    const map: RowMap<Row, Item> = {
      columns: [...new Set(['tenant', ...cells.map(({ column }) => column)])] as (keyof Row & string)[],
      toRow(tenant, item) {
        const row: Values = {}
        for (const { name, column, write } of cells) {
          const value = (item as Values)[name]
          row[column] = write === undefined ? value : write(value)
        }
        row['tenant'] = tenant
        return row as Row
      },
      fromRow(row) {
        const item: Values = {}
        for (const { name, column, read } of cells) {
          const stored = (row as Values)[column]
          item[name] = read === undefined ? stored : read(stored)
        }
        return item as Item
      },
      found: (row) => row && map.fromRow(row),
    }
    return map
  }

/** A boolean as 0 or 1. */
export const flag = <const Column extends string>(column: Column) => ({
  column,
  write: (value: boolean): number => (value ? 1 : 0),
  read: (stored: number): boolean => stored === 1,
})

/** Any value as JSON. */
export const json = <const Column extends string>(column: Column) => ({
  column,
  write: (value: unknown): string => JSON.stringify(value),
  read: (stored: string): never => JSON.parse(stored) as never,
})

/** Any value as JSON, where no value is no text. */
export const jsonOrNull = <const Column extends string>(column: Column) => ({
  column,
  write: (value: unknown): string | null => (value === null ? null : JSON.stringify(value)),
  read: (stored: string | null): never => (stored === null ? null : JSON.parse(stored)) as never,
})
