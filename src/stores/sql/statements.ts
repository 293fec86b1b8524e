import type { Compilable, CompiledQuery, Kysely, RawBuilder, Sql } from 'kysely'
import type { Schema } from './schema.ts'

/**
 * How a store method is written: a statement is built with Kysely once per dialect, on first use, with named arguments
 * in place of values; each call only binds. Building SQL costs more than running it, so it never happens per call.
 *
 *   const findTask = statement<{ tenant: string; number: number }>()((db, arg) =>
 *     db.selectFrom('tasks').selectAll().where('tenant', '=', arg('tenant')).where('number', '=', arg('number')))
 *   …
 *   const row = await sessionOf(unit).get(findTask, { tenant, number })
 *
 * Kysely itself is loaded by `loadKysely` when a store is opened, not when the program starts: it has hundreds of
 * modules, and a client's handshake does not need them. Builders therefore take `sql` from their third argument.
 *
 * A statement whose shape depends on the call (optional filters) comes from a `statementFamily`, cached by shape.
 */
export type Dialect = 'sqlite' | 'postgres'
export type Value = string | number | null | Uint8Array
export type Prepared = Readonly<{
  sql: string
  bind: readonly (string | Readonly<{ constant: Value }>)[]
  /** Counts the statements of this process: the place of the compiled form in a connection's list. */
  index: number
  name: string
}>

export type Statement<Args, Row> = Readonly<{
  prepared(dialect: Dialect): Prepared
  readonly __types?: (args: Args) => Row
}>

/** Runs statements on one connection. SQLite answers at once, PostgreSQL with a promise: always `await`. */
export type Session = Readonly<{
  dialect: Dialect
  all<Args, Row>(statement: Statement<Args, Row>, args: Args): Row[] | Promise<Row[]>
  get<Args, Row>(statement: Statement<Args, Row>, args: Args): Row | undefined | Promise<Row | undefined>
  /** Answers the number of rows changed. */
  run<Args, Row>(statement: Statement<Args, Row>, args: Args): number | Promise<number>
}>

class Argument {
  readonly name: string
  constructor(name: string) {
    this.name = name
  }
}

export type Builder<Args, Row> = (
  db: Kysely<Schema>,
  arg: <Name extends keyof Args & string>(name: Name) => Args[Name],
  kit: Readonly<{ dialect: Dialect; sql: Sql }>,
) => Pick<Compilable<Row>, 'compile'>

let kysely: typeof import('kysely') | undefined
const compilers: Partial<Record<Dialect, Kysely<Schema>>> = {}

export async function loadKysely(): Promise<void> {
  kysely ??= await import('kysely')
}

let statementCount = 0

export const statement =
  <Args>() =>
  <Row>(build: Builder<Args, Row>): Statement<Args, Row> => {
    let sqlite: Prepared | undefined
    let postgres: Prepared | undefined
    return {
      prepared(dialect) {
        if (dialect === 'sqlite') {
          sqlite ??= prepare(dialect, build)
          return sqlite
        }
        postgres ??= prepare(dialect, build)
        return postgres
      },
    }
  }

/** Statements that differ by which optional parts are present; `shape` names the variant and bounds how many exist. */
export function statementFamily<Args, Row>(build: (shape: string) => Builder<Args, Row>) {
  const members = new Map<string, Statement<Args, Row>>()
  return (shape: string): Statement<Args, Row> => {
    let member = members.get(shape)
    if (member === undefined) {
      member = statement<Args>()(build(shape))
      members.set(shape, member)
    }
    return member
  }
}

function prepare<Args, Row>(dialect: Dialect, build: Builder<Args, Row>): Prepared {
  const compiled: CompiledQuery<Row> = build(compilerFor(dialect), (name) => new Argument(name) as never, {
    dialect,
    sql: loadedKysely().sql,
  }).compile()
  const index = statementCount++
  return {
    // SQLite looks at a bare parameter of LIMIT when it plans, and so compiles the statement anew for every call.
    sql: dialect === 'sqlite' ? compiled.sql.replaceAll(' limit ?', ' limit (? + 0)') : compiled.sql,
    index,
    name: `s${index}`,
    bind: compiled.parameters.map((parameter) =>
      parameter instanceof Argument ? parameter.name : { constant: parameter as Value },
    ),
  }
}

export function bindArguments(prepared: Prepared, args: unknown): Value[] {
  const values: Value[] = new Array(prepared.bind.length)
  for (let index = 0; index < values.length; index++) {
    const slot = prepared.bind[index]!
    values[index] = typeof slot === 'string' ? ((args as Record<string, Value>)[slot] ?? null) : slot.constant
  }
  return values
}

function loadedKysely(): typeof import('kysely') {
  if (kysely === undefined) throw new Error('a store loads Kysely before it prepares statements')
  return kysely
}

/** Kysely builds SQL and nothing else; connections are ours, so that SQLite can answer without a promise. */
function compilerFor(dialect: Dialect): Kysely<Schema> {
  const existing = compilers[dialect]
  if (existing !== undefined) return existing
  const library = loadedKysely()
  const parts =
    dialect === 'sqlite'
      ? { adapter: library.SqliteAdapter, inspect: library.SqliteIntrospector, compile: library.SqliteQueryCompiler }
      : {
          adapter: library.PostgresAdapter,
          inspect: library.PostgresIntrospector,
          compile: library.PostgresQueryCompiler,
        }
  const compiler = new library.Kysely<Schema>({
    dialect: {
      createAdapter: () => new parts.adapter(),
      createDriver: () => new library.DummyDriver(),
      createIntrospector: (db) => new parts.inspect(db),
      createQueryCompiler: () => new parts.compile(),
    },
  })
  compilers[dialect] = compiler
  return compiler
}

/** Raw SQL, for what the builder cannot say, as something to compile. */
export const rawStatement = <Row>(raw: RawBuilder<Row>, db: Kysely<Schema>): Pick<Compilable<Row>, 'compile'> => ({
  compile: () => raw.compile(db),
})
