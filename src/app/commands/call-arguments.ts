import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { AppError } from '../../contract/app-error.ts'
import type { CommandContext } from './context.ts'
import { preparedTool } from './prepared-tool.ts'

type Arguments = Record<string, unknown>
type FieldSchema = Readonly<{ type?: unknown; items?: Readonly<{ type?: unknown }> }>
const FILE_BYTES_MAX = 16 * 1024 * 1024

/** The fields of a tool by name, with the schema of each. */
export type FieldSchemas = Readonly<Record<string, FieldSchema>>

/** The arguments of a call from the command line: `--args`, overridden by each `key=value`. */
export async function readArguments(
  context: CommandContext,
  fieldsOf: () => Promise<FieldSchemas>,
): Promise<Arguments> {
  const input = context.parsed.text('args')
  const args = input === undefined ? {} : parseObject(input === '-' ? await text(context.stdin) : input)
  const pairs = context.parsed.positionals.slice(1)
  const fields = pairs.length === 0 ? {} : await fieldsOf()
  const keys = new Set<string>()
  for (const pair of pairs) {
    const split = pair.indexOf('=')
    if (split < 1) {
      throw new AppError('ERR_INVALID_INPUT', `'${pair}' must be key=value. Or give all arguments with --args JSON.`, {
        field: 'key=value',
      })
    }
    const key = pair.slice(0, split)
    if (keys.has(key)) throw repeated(key, fields[key])
    keys.add(key)
    const written = pair.slice(split + 1)
    const value = written.startsWith('@') ? await readValue(context, key, written.slice(1)) : written
    // Not by assignment: that would drop a key named __proto__ instead of refusing it.
    Object.defineProperty(args, key, {
      value: parseValue(key, value, Object.hasOwn(fields, key) ? fields[key] : undefined),
      enumerable: true,
      configurable: true,
      writable: true,
    })
  }
  requireFiniteNumbers(args)
  return args
}

/** The fields of one of our tools; undefined for an unknown tool, such as that of an MCP server. */
export const knownFields = (tool: string): FieldSchemas | undefined => {
  const listed = preparedTool(tool)?.listed
  return listed && fieldsIn(listed.inputSchema)
}

export const fieldsIn = (inputSchema: Readonly<Record<string, unknown>>): FieldSchemas =>
  (inputSchema['properties'] ?? {}) as FieldSchemas

/** `@FILE` is the content of the file, `@-` standard input, and `@@` begins a string with an at sign. */
async function readValue(context: CommandContext, key: string, rest: string): Promise<string> {
  if (rest.startsWith('@')) return rest
  if (rest === '-') return await text(context.stdin)
  let content: Buffer
  try {
    content = await readFile(rest.startsWith('/') ? rest : `${context.workingDirectory}/${rest}`)
  } catch (cause) {
    const reason = (cause as NodeJS.ErrnoException).code
    throw new AppError(
      'ERR_INVALID_INPUT',
      `${key}: the file '${rest}' cannot be read (${reason}). For a string that begins with @, write ${key}=@@${rest}`,
      { field: key },
      { cause },
    )
  }
  if (content.length <= FILE_BYTES_MAX && !content.includes(0)) return content.toString('utf8')
  throw new AppError('ERR_INVALID_INPUT', `${key}: the file '${rest}' must be a text file of at most 16 MiB.`, {
    field: key,
  })
}

function repeated(key: string, schema: FieldSchema | undefined): AppError {
  const next =
    schema?.type === 'array' ? `Give all of its items at once: ${arrayForm(key, schema, 'a,b')}` : 'Keep one of them.'
  return new AppError('ERR_INVALID_INPUT', `'${key}' occurs twice. ${next}`, { field: key })
}

/** JSON can write numbers that are too large; they would be sent as null and count as absent. */
function requireFiniteNumbers(args: Arguments): void {
  const waiting: [path: string, value: unknown][] = Object.entries(args)
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const [path, value] = next
    if (typeof value === 'number' && !Number.isFinite(value)) {
      throw new AppError('ERR_INVALID_INPUT', `'${path}' is too large a number. Use a smaller one.`, {
        field: path,
        constraint: 'finite number',
      })
    }
    if (typeof value !== 'object' || value === null) continue
    for (const [key, inner] of Object.entries(value)) waiting.push([`${path}.${key}`, inner])
  }
}

function parseObject(written: string): Arguments {
  try {
    const parsed: unknown = JSON.parse(written)
    if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)) return parsed as Arguments
  } catch (cause) {
    throw new AppError('ERR_INVALID_INPUT', `--args is not JSON: ${(cause as Error).message}`, { field: 'args' })
  }
  throw new AppError('ERR_INVALID_INPUT', '--args must be a JSON object.', { field: 'args' })
}

/** A value for a string field stays a string even if it looks like JSON: a cursor such as 21.0, a note that reads 5. */
function parseValue(key: string, written: string, schema: FieldSchema | undefined): unknown {
  if (schema?.type === 'string') return unquoted(written)
  try {
    return JSON.parse(written)
  } catch {
    if (schema?.type !== 'array') return written
    throw new AppError('ERR_INVALID_INPUT', `'${key}' takes a JSON array: ${arrayForm(key, schema, written)}`, {
      field: key,
      constraint: 'array',
    })
  }
}

/** A string may also be written in JSON quotes. */
function unquoted(written: string): string {
  if (!written.startsWith('"')) return written
  try {
    const parsed: unknown = JSON.parse(written)
    return typeof parsed === 'string' ? parsed : written
  } catch {
    return written
  }
}

/** The form to type, with the typed value in it if possible. */
function arrayForm(key: string, { items }: FieldSchema, written: string): string {
  const parts = written
    .replace(/^\[|\]$/g, '')
    .split(',')
    .map((part) => part.trim())
    .filter((part) => /^[\w./:@ -]{1,40}$/.test(part))
  const [first = 'a', ...others] = parts
  const values = items?.type === undefined || items.type === 'string' ? [first, ...others.slice(0, 3)] : [1, 2]
  return `${key}='${JSON.stringify(values)}'`
}
