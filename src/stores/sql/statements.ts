import { createRequire } from 'node:module'
import type { Compilable, CompiledQuery, Kysely, RawBuilder, Sql } from 'kysely'
import generated from './compiled-statements.json' with { type: 'json' }
import type { Schema } from './schema.ts'

/**
 * How a store method is written: a statement has a name and is built with Kysely, with named arguments in place of values;
 * each call only binds. Building SQL costs more than running it, so it never happens per call.
 *
 *   const findTask = statement<{ tenant: string; number: number }>('task-store.findTask')((db, arg) =>
 *     db.selectFrom('tasks').selectAll().where('tenant', '=', arg('tenant')).where('number', '=', arg('number')))
 *   …
 *   const row = await sessionOf(tx).get(findTask, { tenant, number })
 *
 * Kysely has hundreds of modules, which would be most of the program's start and a good part of its memory. So
 * `npm run gen` writes what it builds to compiled-statements.json, and a statement found there needs no Kysely at run
 * time. Only a shape that is not in the file loads it, once. Builders take `sql` from their third argument.
 *
 * A statement whose shape depends on the call (optional filters) comes from a `statementFamily`, cached by shape.
 */
export type Dialect = 'sqlite' | 'postgres'
export type Value = string | number | null | Uint8Array
export type Prepared = Readonly<{
  sql: string
  bind: readonly (string | Readonly<{ constant: Value }>)[]
  /** Counts the statements of this process: the index of the compiled form in a connection's list. */
  index: number
  name: string
  isRead: boolean
  /** Whether it writes only to the log. */
  isOfLog: boolean
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

export type Kit = Readonly<{ dialect: Dialect; sql: Sql }>

type Columns<Args> = Readonly<{
  /** The arguments of these names, for the columns of the same names. */
  columns<Name extends keyof Args & string>(names: readonly Name[]): Pick<Args, Name>
}>

export type Builder<Args, Row> = (
  db: Kysely<Schema>,
  arg: <Name extends keyof Args & string>(name: Name) => Args[Name],
  kit: Kit & Columns<Args>,
) => Pick<Compilable<Row>, 'compile'>

let kysely: typeof import('kysely') | undefined
const compilers: Partial<Record<Dialect, Kysely<Schema>>> = {}
const registered = new Map<string, Builder<never, unknown>>()

let statementCount = 0

export const statement =
  <Args>(name: string) =>
  <Row>(build: Builder<Args, Row>): Statement<Args, Row> => {
    if (registered.has(name)) throw new Error(`two statements are named ${name}`)
    registered.set(name, build as Builder<never, unknown>)
    let sqlite: Prepared | undefined
    let postgres: Prepared | undefined
    return {
      prepared(dialect) {
        if (dialect === 'sqlite') {
          sqlite ??= prepare(dialect, name, build)
          return sqlite
        }
        postgres ??= prepare(dialect, name, build)
        return postgres
      },
    }
  }

/**
 * Statements that differ by which optional parts are present; `shape` names the variant and bounds how many exist.
 * `usual` are the shapes that are compiled beforehand.
 */
export function statementFamily<Args, Row>(
  name: string,
  build: (shape: string) => Builder<Args, Row>,
  usual: readonly string[] = [],
) {
  const members = new Map<string, Statement<Args, Row>>()
  const member = (shape: string): Statement<Args, Row> => {
    let found = members.get(shape)
    if (found === undefined) {
      found = statement<Args>(`${name}(${shape})`)(build(shape))
      members.set(shape, found)
    }
    return found
  }
  for (const shape of usual) member(shape)
  return member
}

const texts: Record<Dialect, Map<string, Statement<readonly Value[], Record<string, Value>>>> = {
  sqlite: new Map(),
  postgres: new Map(),
}
/** A list of tables and columns begins with `with`. */
const isReading = (sql: string): boolean =>
  /^\s*(select|with)\b/i.test(sql) && !/\b(insert into|update|delete from)\b/i.test(sql)

/** The log, its heads and its index: caches of other tables stay valid when these grow. */
const isOfLog = (sql: string): boolean =>
  /^\s*(insert into|insert or ignore into|update) "?(log_entries|log_heads|trail_entries|interactions|interaction_bodies|token_usage)"?\s/i.test(
    sql,
  )

const TEXTS_MAX = 2_000

/** SQL that a library has compiled, with values by position. A library has few shapes; an unbounded number is refused. */
export function textStatement(
  dialect: Dialect,
  sql: string,
  valueCount: number,
): Statement<readonly Value[], Record<string, Value>> {
  const known = texts[dialect].get(sql)
  if (known !== undefined) return known
  if (texts[dialect].size >= TEXTS_MAX) throw new Error('a library has built too many different statements')
  const index = statementCount++
  const bind = Array.from({ length: valueCount }, (_, position) => String(position))
  const prepared: Prepared = { sql, bind, index, name: `s${index}`, isRead: isReading(sql), isOfLog: false }
  const made = { prepared: () => prepared }
  texts[dialect].set(sql, made)
  return made
}

type CompiledText = Readonly<{ sql: string; bind: Prepared['bind'] }>
const compiledBefore = generated as unknown as Readonly<Record<Dialect, Readonly<Record<string, CompiledText>>>>

function prepare<Args, Row>(dialect: Dialect, name: string, build: Builder<Args, Row>): Prepared {
  const { sql, bind } = compiledBefore[dialect][name] ?? compileStatement(dialect, build)
  const index = statementCount++
  return { sql, bind, index, name: `s${index}`, isRead: /^\s*(select|pragma)\b/i.test(sql), isOfLog: isOfLog(sql) }
}

function compileStatement<Args, Row>(dialect: Dialect, build: Builder<Args, Row>): CompiledText {
  const compiled: CompiledQuery<Row> = build(compilerFor(dialect), (name) => new Argument(name) as never, {
    dialect,
    sql: loadedKysely().sql,
    columns: (names) => Object.fromEntries(names.map((name) => [name, new Argument(name)])) as never,
  }).compile()
  return {
    // SQLite reads a bare parameter of LIMIT when it plans, and so would compile the statement again for every call.
    sql: dialect === 'sqlite' ? compiled.sql.replaceAll(' limit ?', ' limit (? + 0)') : compiled.sql,
    bind: compiled.parameters.map((parameter) =>
      parameter instanceof Argument ? parameter.name : { constant: parameter as Value },
    ),
  }
}

/** All registered statements, compiled: the output of `npm run gen`. */
export function compileAllStatements(dialect: Dialect): Record<string, CompiledText> {
  const names = [...registered.keys()].sort()
  return Object.fromEntries(names.map((name) => [name, compileStatement(dialect, registered.get(name)!)]))
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
  kysely ??= createRequire(import.meta.url)('kysely') as typeof import('kysely')
  return kysely
}

/** Kysely only builds SQL; connections are ours, so that SQLite can answer without a promise. */
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

/** Raw SQL, for what the builder cannot express. */
export const rawStatement = <Row>(raw: RawBuilder<Row>, db: Kysely<Schema>): Pick<Compilable<Row>, 'compile'> => ({
  compile: () => raw.compile(db),
})
