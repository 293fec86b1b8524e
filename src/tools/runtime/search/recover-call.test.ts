import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { loadCatalogue } from '../../../../bench/recall.ts'
import { AppError } from '../../../contract/app-error.ts'
import { createKnownNames } from '../known-names.ts'
import { buildSafeNames } from '../safe-names.ts'
import { type CallTargets, type RecoveredCall, recoverCall } from './recover-call.ts'

const catalogue = loadCatalogue()
const knownNames = new Set(catalogue.map((tool) => tool.name))
const schemas = new Map(catalogue.map((tool) => [tool.name, tool.inputSchema]))
const safeNames = buildSafeNames(knownNames, { 'fs.create.dir': 'fs.create_dir' })
const targets: CallTargets = {
  names: createKnownNames([...knownNames]),
  inputSchemaOf: (name) => schemas.get(name),
  documentedNameOf: safeNames.documentedNameOf,
}

const recover = (raw: unknown): RecoveredCall => recoverCall(raw, targets)
function refusalOf(raw: unknown, among: CallTargets = targets): AppError {
  try {
    recoverCall(raw, among)
  } catch (error) {
    if (error instanceof AppError) return error
    throw error
  }
  throw new Error('not refused')
}

const id = { task_id: 'T-0001' }

describe('a correct call', () => {
  it('passes unchanged and without a warning', () => {
    expect(recover({ tool_name: 'task_get', tool_args: id })).toEqual({ name: 'task_get', args: id, warnings: [] })
    expect(recover({ tool_name: 'whoami' })).toEqual({ name: 'whoami', args: {}, warnings: [] })
    expect(recover({ tool_name: 'search_tools', tool_args: { query: 'x' } }).name).toBe('search_tools')
    const own = { name: 'flow', input: { args: 1 } }
    expect(recover({ tool_name: 'aegis.workflow.run', tool_args: own })).toEqual({
      name: 'aegis.workflow.run',
      args: own,
      warnings: [],
    })
  })
})

const mistakes: readonly (readonly [what: string, request: unknown, name: string, args: Record<string, unknown>])[] = [
  ['arguments beside tool_name', { tool_name: 'task_get', ...id }, 'task_get', id],
  ['an argument called name', { tool_name: 'create_agent', name: 'Helper' }, 'create_agent', { name: 'Helper' }],
  ['tool_args as text', { tool_name: 'task_get', tool_args: JSON.stringify(id) }, 'task_get', id],
  [
    'tool_args as text in text',
    { tool_name: 'task_get', tool_args: JSON.stringify(JSON.stringify(id)) },
    'task_get',
    id,
  ],
  ['all as text', JSON.stringify({ tool_name: 'task_get', tool_args: id }), 'task_get', id],
  ['null tool_args', { tool_name: 'whoami', tool_args: null }, 'whoami', {}],
  ['empty text', { tool_name: 'whoami', tool_args: '' }, 'whoami', {}],
  ['name and arguments', { name: 'task_get', arguments: id }, 'task_get', id],
  ['tool and params', { tool: 'task_get', params: id }, 'task_get', id],
  ['toolName and input', { toolName: 'task_get', input: id }, 'task_get', id],
  ['parameters', { tool_name: 'task_get', parameters: id }, 'task_get', id],
  ['text under an alias', { tool_name: 'task_get', args: JSON.stringify(id) }, 'task_get', id],
  ['wrapped twice', { tool_name: 'task_get', tool_args: { arguments: id } }, 'task_get', id],
  ['JSON behind the name', { tool_name: 'task_get {"task_id":"T-0001"}' }, 'task_get', id],
  ['JSON after a colon', { tool_name: 'task_get: {"task_id":"T-0001"}' }, 'task_get', id],
  ['a call with JSON', { tool_name: 'task_get({"task_id": "T-0001"})' }, 'task_get', id],
  ['a call with keywords', { tool_name: 'task_get(task_id="T-0001")' }, 'task_get', id],
  ['a bare word', { tool_name: 'task_get(task_id=T-0001)' }, 'task_get', id],
  ['an empty call', { tool_name: 'whoami()' }, 'whoami', {}],
  ['a quoted name', { tool_name: '`task_get`', tool_args: id }, 'task_get', id],
  [
    'keywords of many types',
    { tool_name: 'task_list(project=\'a, b\', limit=5, status=["todo"], search=None, x={"y": 1})' },
    'task_list',
    { project: 'a, b', limit: 5, status: ['todo'], search: null, x: { y: 1 } },
  ],
  [
    'an alias key that is a parameter',
    { tool_name: 'cmd.run', command: 'ls', args: ['-l'] },
    'cmd.run',
    { command: 'ls', args: ['-l'] },
  ],
  ['the same key as a container', { tool_name: 'cmd.run', args: { command: 'ls' } }, 'cmd.run', { command: 'ls' }],
  [
    'a text parameter called input',
    { tool_name: 'aegis.agent.generate', input: 'a helper' },
    'aegis.agent.generate',
    { input: 'a helper' },
  ],
  [
    'parameters called toolName and args',
    { tool_name: 'preview_app_tool', appId: 'a', toolName: 't', args: { q: 1 } },
    'preview_app_tool',
    { appId: 'a', toolName: 't', args: { q: 1 } },
  ],
  [
    'name is the tool, tool is no tool',
    { name: 'aegis.workflow.run', tool: 'unheard of', args: {} },
    'aegis.workflow.run',
    { tool: 'unheard of' },
  ],
]

describe('mistakes that have one reading', () => {
  it.each(mistakes)('%s', (_, raw, name, args) => {
    const call = recover(raw)
    expect(call.name).toBe(name)
    expect(call.args).toEqual(args)
  })

  it.each([
    ['archestra__whoami', 'whoami'],
    ['mcp__castellan__task_get', 'task_get'],
    ['mcp__castellan__fs_read', 'fs.read'],
    ['castellan__task_get', 'task_get'],
    ['functions.task_get', 'task_get'],
    ['fs_read', 'fs.read'],
    ['fs-read', 'fs.read'],
    ['FS.Read', 'fs.read'],
    ['taskCreate', 'task_create'],
    ['TaskCreate', 'task_create'],
    ['task.create', 'task_create'],
    ['aegis_workflow_executions_list', 'aegis.workflow.executions.list'],
    ['fs_create_dir', 'fs.create_dir'],
    ['fs.create.dir', 'fs.create.dir'],
    [' task_get ', 'task_get'],
  ])('the name %s is %s', (given, name) => {
    const call = recover({ tool_name: given })
    expect(call.name).toBe(name)
    expect(call.warnings.length).toBe(given.trim() === name ? 0 : 1)
  })

  it('takes a known name with unusual characters as it is', () => {
    const odd = { ...targets, names: createKnownNames(['My tool (v2)', 'run_tool']) }
    expect(recoverCall({ tool_name: 'My tool (v2)' }, odd)).toEqual({ name: 'My tool (v2)', args: {}, warnings: [] })
  })

  it('says what was moved', () => {
    const merged = recover({
      tool_name: 'task_get',
      tool_args: id,
      include_dependents: true,
      include_dependent: 1,
      zzz: 1,
    })
    expect(merged.args).toEqual({ ...id, include_dependents: true })
    expect(merged.warnings).toEqual([
      '"include_dependent" is not a parameter of task_get and was ignored. Did you mean include_dependents?',
      '"zzz" is not a parameter of task_get and was ignored.',
      'Moved into tool_args: "include_dependents".',
    ])
    expect(recover({ tool_name: 'task_get', ...id }).warnings).toEqual(['Moved into tool_args: "task_id".'])
    expect(recover({ name: 'task_get', args: JSON.stringify(id) }).warnings).toHaveLength(3)
    expect(recover({ tool_name: 'task_get', tool_args: id, ...id })).toEqual({
      name: 'task_get',
      args: id,
      warnings: [],
    })
  })
})

describe('what is refused', () => {
  it.each([
    ['create_task', 'task_create'],
    ['taks_get', 'task_get'],
    ['task_gets', 'task_get'],
    ['read_file', 'file_read'],
    ['archestra__list_agent', 'list_agents'],
  ])('never guesses %s, and suggests %s', (given, suggestion) => {
    const error = refusalOf({ tool_name: given, tool_args: {} })
    expect(error.code).toBe('ERR_UNKNOWN_TOOL')
    expect(error.details['nearest']).toContain(suggestion)
    expect(error.details['nearest']).toHaveLength(3)
    expect(error.message).toContain('search_tools')
  })

  it('does not choose between two tools of one spelling without a name table', () => {
    const error = refusalOf(
      { tool_name: 'fs_create_dir' },
      { names: targets.names, inputSchemaOf: targets.inputSchemaOf },
    )
    expect(error.code).toBe('ERR_UNKNOWN_TOOL')
    expect(error.details['nearest']).toEqual(expect.arrayContaining(['fs.create.dir', 'fs.create_dir']))
  })

  it('neither chooses nor suggests a tool that the caller may not use', () => {
    const few = { ...targets, names: createKnownNames(['task_list', 'run_tool']) }
    const error = refusalOf({ tool_name: 'fs_read' }, few)
    expect(error.code).toBe('ERR_UNKNOWN_TOOL')
    expect(error.details['nearest']).toEqual([])
    expect(refusalOf({ tool_name: 'task_get' }, few).details['nearest']).toEqual(['task_list'])
  })

  it.each([
    'run_tool',
    'runTool',
    'archestra__run_tool',
    'mcp__castellan__run_tool',
    'run_tool({"tool_name":"whoami"})',
  ])('%s does not run itself', (given) => {
    const error = refusalOf({ tool_name: given, tool_args: { tool_name: 'whoami' } })
    expect(error.code).toBe('ERR_INVALID_INPUT')
    expect(error.message).toContain('cannot run itself')
  })

  it.each<[string, unknown, string]>([
    ['nothing', undefined, 'arguments'],
    ['an array', [], 'arguments'],
    ['text that is not JSON', 'task_get', 'arguments'],
    ['no name', {}, 'tool_name'],
    ['a name that is no text', { tool_name: 5 }, 'tool_name'],
    ['an empty name', { tool_name: '  ' }, 'tool_name'],
    ['two names', { tool: 'task_get', name: 'task_list' }, 'tool_name'],
    ['arguments without names', { tool_name: 'task_get("T-0001")' }, 'tool_name'],
    ['broken JSON behind the name', { tool_name: 'task_get {"task_id":' }, 'tool_name'],
    ['a repeated keyword', { tool_name: 'task_get(task_id="a", task_id="b")' }, 'tool_name'],
    ['words behind the name', { tool_name: 'task_get for T-0001' }, 'tool_name'],
    ['a list as tool_args', { tool_name: 'task_get', tool_args: ['T-0001'] }, 'tool_args'],
    ['broken text as tool_args', { tool_name: 'task_get', tool_args: '{task_id:1' }, 'tool_args'],
    ['two values', { tool_name: 'task_get', tool_args: id, task_id: 'T-0002' }, 'tool_args'],
    ['two values, one in the name', { tool_name: 'task_get(task_id="T-2")', tool_args: id }, 'tool_args'],
  ])('%s', (_, raw, field) => {
    const error = refusalOf(raw)
    expect(error.code).toBe('ERR_INVALID_INPUT')
    expect(error.details['field']).toBe(field)
    expect(error.message.startsWith(`${field}: `)).toBe(true)
  })

  it('shows the text of the caller quoted and cut', () => {
    const error = refusalOf({ tool_name: `x"\n${'y'.repeat(5_000)}` })
    expect(error.message.length).toBeLessThan(300)
    expect(error.message).not.toContain('\n')
  })
})

describe('for any input', () => {
  const keys = fc.constantFrom(
    'tool_name',
    'tool_args',
    'name',
    'tool',
    'toolName',
    'args',
    'arguments',
    'input',
    'task_id',
    'x',
    '__proto__',
  )
  const texts = fc.oneof(
    fc.string({ maxLength: 60 }),
    fc.constantFrom('task_get', 'run_tool', 'fs_read', 'cmd.run', '{"task_id":"T-1"}'),
    fc.string({ unit: fc.constantFrom(...'abt_.(){}[]",\'=: 1\\'), maxLength: 40 }).map((rest) => `task_get${rest}`),
  )
  const raws = fc.oneof(
    fc.dictionary(keys, fc.oneof(texts, fc.jsonValue({ maxDepth: 2 }))),
    texts,
    fc.jsonValue({ maxDepth: 2 }),
  )

  it('the answer is a known tool with its arguments, or an AppError', () => {
    fc.assert(
      fc.property(raws, (raw) => {
        try {
          const { name, args } = recover(raw)
          expect(knownNames.has(name)).toBe(true)
          expect(name).not.toBe('run_tool')
          expect(Array.isArray(args)).toBe(false)
        } catch (error) {
          if (!(error instanceof AppError)) throw error
        }
      }),
      { numRuns: 1_000 },
    )
    expect(({} as Record<string, unknown>)['task_id']).toBeUndefined()
  })

  it('a recovered call, written correctly, is read as itself', () => {
    fc.assert(
      fc.property(raws, (raw) => {
        let call: RecoveredCall
        try {
          call = recover(raw)
        } catch {
          return
        }
        const again = recover({ tool_name: call.name, tool_args: call.args })
        expect(again.name).toBe(call.name)
        if (again.warnings.length === 0) expect(again.args).toEqual(call.args)
      }),
      { numRuns: 500 },
    )
  })

  it('a member called __proto__ is refused by name and pollutes nothing', () => {
    const hostile: unknown = JSON.parse('{"tool_name":"task_get","task_id":"T-1","__proto__":{"polluted":true}}')
    expect(() => recover(hostile)).toThrow('__proto__')
    expect(Object.hasOwn(Object.prototype, 'polluted')).toBe(false)
  })
})
