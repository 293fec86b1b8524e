import type { ErrorDetails } from '../../src/contract/app-error.ts'
import type { Progress } from '../../src/contract/call.ts'
import type { ErrorCode } from '../../src/contract/error-codes.ts'
import { LOCAL_TENANT, type TenantId } from '../../src/contract/principal.ts'
import type { ListedTool, ToolAnswer, ToolCaller, ToolHost } from '../../src/tools/runtime/tool-host.ts'

/** A small tool host for the transport's tests: the other side of the port, with tools that show what a transport must carry. */
type SampleCall = Readonly<{ caller: ToolCaller; signal: AbortSignal; progress: (update: Progress) => void }>
type SampleTool = Readonly<{
  listed: ListedTool
  run(args: Record<string, unknown>, call: SampleCall): Promise<ToolAnswer> | ToolAnswer
}>

export type SampleHost = ToolHost &
  Readonly<{
    /** Calls of `wait` that have begun, in order; each finishes when its `release` runs or its signal aborts. */
    waiting: { release(): void; signal: AbortSignal }[]
    callers: ToolCaller[]
    addTool(name: string): void
    whenWaiting(count: number): Promise<void>
  }>

const answer = (value: unknown): ToolAnswer => ({
  json: JSON.stringify(value),
  output: value,
  isError: false,
})

function failure(code: ErrorCode, message: string, details: ErrorDetails = {}): ToolAnswer {
  const failed = { code, message, details }
  return { json: JSON.stringify({ error: failed }), isError: true, failure: failed }
}

function listed(
  name: string,
  description: string,
  properties = {},
  outputProperties?: Record<string, unknown>,
): ListedTool {
  return {
    name,
    title: name,
    description,
    inputSchema: { type: 'object', properties, additionalProperties: false },
    ...(outputProperties === undefined
      ? {}
      : {
          outputSchema: {
            type: 'object',
            properties: { ...outputProperties, error: { type: 'object' } },
            anyOf: [{ required: Object.keys(outputProperties) }, { required: ['error'] }],
            additionalProperties: false,
          },
        }),
    annotations: {
      title: name,
      readOnlyHint: true,
      destructiveHint: false,
      idempotentHint: true,
      openWorldHint: false,
    },
  }
}

const text = { type: 'string', description: 'Any text.' }

const plainTools: readonly SampleTool[] = [
  {
    listed: listed('ping', 'Answers pong.', {}, { pong: { type: 'boolean' } }),
    run: () => answer({ pong: true }),
  },
  {
    listed: listed('echo', 'Answers with its argument.', { text }, { text }),
    run: ({ text: value }) =>
      typeof value === 'string'
        ? answer({ text: value })
        : failure('ERR_INVALID_INPUT', 'text: must be a string', { field: 'text' }),
  },
  { listed: listed('fs.read', 'Has a dot in its name.', { text }), run: () => answer({ read: true }) },
  {
    listed: listed('picture', 'Answers with a picture.'),
    run: () => ({
      json: '{}',
      output: {},
      isError: false,
      structured: false,
      content: [{ type: 'image', data: 'aGk=', mimeType: 'image/png' }],
    }),
  },
]

export function createSampleHost(extraTools = 0): SampleHost {
  const listeners = new Set<(tenant: TenantId) => void>()
  const waiting: SampleHost['waiting'] = []
  const waiters: { count: number; resolve(): void }[] = []
  const callers: ToolCaller[] = []
  const tools = new Map<string, SampleTool>()
  const define = (tool: SampleTool): void => {
    tools.set(tool.listed.name, tool)
  }

  for (const tool of plainTools) define(tool)
  define({
    listed: listed('run_tool', 'Runs another tool.', { name: text }),
    run: ({ name }) => failure('ERR_UNKNOWN_TOOL', `There is no tool ${String(name)}`, { name: String(name) }),
  })
  define({
    listed: listed('count', 'Reports progress three times.'),
    run: async (_, { progress }) => {
      for (let step = 1; step <= 3; step++) {
        progress({ progress: step, total: 3, message: `step ${step}` })
        await new Promise((resolve) => setImmediate(resolve))
      }
      return answer({ counted: 3 })
    },
  })
  define({
    listed: listed('wait', 'Finishes when told to.'),
    run: (_, { signal }) =>
      new Promise((resolve) => {
        signal.addEventListener('abort', () => resolve(failure('ERR_CANCELLED', 'The call was cancelled.')), {
          once: true,
        })
        waiting.push({ release: () => resolve(answer({ waited: true })), signal })
        for (const waiter of waiters) if (waiting.length >= waiter.count) waiter.resolve()
      }),
  })
  for (let index = 0; index < extraTools; index++) {
    define({ listed: listed(`extra_${String(index).padStart(4, '0')}`, 'One of many.'), run: () => answer({ index }) })
  }

  return {
    waiting,
    callers,
    list(caller) {
      const { exposure } = caller
      const all = [...tools.values()].map((tool) => tool.listed)
      const seen = Array.isArray(exposure) ? all.filter((tool) => exposure.includes(tool.name)) : all
      return caller.safeNames ? seen.map((tool) => ({ ...tool, name: tool.name.replaceAll('.', '_') })) : seen
    },
    async call(caller, name, args, options) {
      callers.push(caller)
      const tool = tools.get(name) ?? tools.get(name.replace('_', '.'))
      if (tool === undefined) {
        return { ...failure('ERR_UNKNOWN_TOOL', `There is no tool "${name}"`, { name }), isUnknownTool: true }
      }
      return tool.run(args as Record<string, unknown>, {
        caller,
        signal: options?.signal ?? new AbortController().signal,
        progress: options?.progress ?? (() => {}),
      })
    },
    onListChanged(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    addTool(name) {
      define({ listed: listed(name, 'Added later.'), run: () => answer({ added: true }) })
      for (const listener of listeners) listener(LOCAL_TENANT)
    },
    whenWaiting: (count) =>
      new Promise((resolve) => {
        if (waiting.length >= count) resolve()
        else waiters.push({ count, resolve })
      }),
  }
}
