import { z } from 'zod'
import type { Call, Progress } from '../../contract/call.ts'
import type { CallingClient } from '../../contract/calling-client.ts'
import type { Principal } from '../../contract/principal.ts'
import type { UpstreamCredential, UpstreamTarget, UpstreamTool, UpstreamTools } from '../../contract/upstream-tools.ts'
import type { SchemaCheck } from '../../domains/manifests/json-schema.ts'
import type { ArgumentChecks } from './argument-checks.ts'
import type { CatalogTool } from './catalog.ts'
import type { LoadedTool, ToolDeclaration } from './define-tool.ts'
import type { ListedTool } from './tool-host.ts'

type JsonObject = Readonly<Record<string, unknown>>

type UpstreamToolDeps = Readonly<{ upstreams: Pick<UpstreamTools, 'call'>; checks: ArgumentChecks }>

/**
 * A tool of another MCP server as one of the catalogue: it is listed, searched, judged, bounded and recorded like ours.
 *
 * 1. Its schema comes from an untrusted party. It is compiled when the tool is called, under the bounds for such schemas. One that
 *    cannot be compiled checks only names, because the other server checks the arguments anyway.
 * 2. What it says of itself in hints goes to clients. It never decides what may be called. `readOnlyHint` decides only whether an
 *    answer waits for its record.
 */
export function upstreamCatalogTool(
  { upstreams, checks }: UpstreamToolDeps,
  tool: UpstreamTool,
  name: string,
  credential: UpstreamCredential,
): CatalogTool {
  const definition = declarationOf(tool, name)
  const listed = listedOf(tool, name)
  const { inputSchema } = listed
  const properties = isObject(inputSchema['properties']) ? inputSchema['properties'] : {}
  const targetOf = ({ origin }: Pick<Call, 'origin'>, principal: Principal): UpstreamTarget => ({
    ...{ tenant: principal.tenant, toolId: tool.id, principal, credential },
    ...(origin !== undefined && { origin }),
  })
  const run: LoadedTool['run'] = async (input, { call, principal }) => {
    const progress = heardProgress(call)
    try {
      return await upstreams.call(targetOf(call, principal), input as JsonObject, {
        signal: call.signal,
        onProgress: progress.pass,
        client: call.client && askingAfter(call.client, progress.passed),
      })
    } finally {
      await progress.passed()
    }
  }
  /** Weak, so that a compiled schema is released when the cache drops it. */
  const loaded = new WeakMap<SchemaCheck, LoadedTool>()
  function loadedWith(check: SchemaCheck = acceptsAll): LoadedTool {
    let code = loaded.get(check)
    if (code === undefined) {
      code = { name, input: argumentsOf(check), run }
      loaded.set(check, code)
    }
    return code
  }
  return {
    name,
    safeName: name,
    definition,
    upstream: tool,
    declaredReadOnly: listed.annotations.readOnlyHint,
    listed,
    listedSafe: listed,
    parameters: new Set(Object.keys(properties)),
    required: namesIn(inputSchema['required']),
    nullable: new Set(Object.keys(properties).filter((key) => !refusesNull(properties[key]))),
    load() {
      const check = checks(tool.inputSchema)
      return check instanceof Promise ? check.then(loadedWith) : loadedWith(check)
    },
  }
}

/** The progress of a call in order; the words of the server only once the caller may see them. */
function heardProgress(call: Pick<Call, 'progress' | 'hears'>) {
  let last: Promise<void> | undefined
  async function passWords({ message, ...counts }: Progress & Readonly<{ message: string }>): Promise<void> {
    const mayShow = (await call.hears?.(message).catch(() => false)) ?? true
    call.progress(mayShow ? { ...counts, message } : counts)
  }
  return {
    pass(update: Progress): void {
      const { message } = update
      if (message === undefined && last === undefined) {
        call.progress(update)
        return
      }
      const next = async () => (message === undefined ? call.progress(update) : await passWords({ ...update, message }))
      last = (last ?? Promise.resolve()).then(next)
    },
    passed: async (): Promise<void> => await last,
  }
}

/** A question comes after what was said before it. */
const askingAfter = (client: CallingClient, said: () => Promise<void>): CallingClient => ({
  ...client,
  async ask(questions, signal) {
    await said()
    return await client.ask(questions, signal)
  },
})

const declarationOf = (tool: UpstreamTool, name: string): ToolDeclaration => ({
  name,
  toolset: 'upstream',
  title: titleOf(tool),
  description: tool.description,
  permission: null,
  tier: 'user',
  effect: 'external',
  idempotent: tool.annotations?.['idempotentHint'] === true,
  rate: 'default',
  skipJudge: false,
  arguments: 'schema',
  raw: true,
  ...(tool.takesTasks && { long: true }),
})

const titleOf = ({ title, annotations, name }: UpstreamTool): string => {
  const hinted = annotations?.['title']
  return title ?? (typeof hinted === 'string' ? hinted : name)
}

/** An absent hint has the protocol's default. */
function listedOf(tool: UpstreamTool, name: string): ListedTool {
  const title = titleOf(tool)
  const hint = (key: string, otherwise: boolean): boolean => {
    const value = tool.annotations?.[key]
    return typeof value === 'boolean' ? value : otherwise
  }
  return {
    name,
    title,
    description: tool.description,
    inputSchema: { ...tool.inputSchema, type: 'object' },
    ...(tool.outputSchema === undefined ? {} : { outputSchema: { ...tool.outputSchema, type: 'object' } }),
    annotations: {
      title,
      readOnlyHint: hint('readOnlyHint', false),
      destructiveHint: hint('destructiveHint', true),
      idempotentHint: hint('idempotentHint', false),
      openWorldHint: hint('openWorldHint', true),
    },
    // A caller without tasks waits for the answer, even if the server insists on a task.
    ...(tool.takesTasks && { execution: { taskSupport: 'optional' } }),
  }
}

const acceptsAll: SchemaCheck = () => []

/** Only arguments that are refused need a list of issues. */
function argumentsOf(check: SchemaCheck): LoadedTool['input'] {
  const explaining = z.custom<JsonObject>(isObject).superRefine((value, context) => {
    for (const problem of check(value)) context.addIssue({ code: 'custom', ...placedProblem(problem) })
  })
  return {
    safeParse: (value) =>
      isObject(value) && check(value).length === 0 ? { success: true, data: value } : explaining.safeParse(value),
  }
}

/** The message of a check begins with the JSON pointer of the value. */
function placedProblem(problem: string): Readonly<{ path: string[]; message: string }> {
  const [, pointer, message] = /^((?:\/[^ ]*)|the value) (.*)$/s.exec(problem) ?? []
  if (pointer === undefined || message === undefined) return { path: [], message: problem }
  const path = pointer.startsWith('/') ? pointer.slice(1).split('/') : []
  return { path: path.map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~')), message }
}

/** Whether null can only mean "left out": some clients send every field. */
const refusesNull = (property: unknown): boolean =>
  isObject(property) &&
  typeof property['type'] === 'string' &&
  property['type'] !== 'null' &&
  property['nullable'] !== true

const namesIn = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((name): name is string => typeof name === 'string') : []

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
