import { readdir } from 'node:fs/promises'
import { basename } from 'node:path'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { foldersOf } from '../../test/repo/toolset-folders.ts'
import { governingResources, workingResources } from '../../test/support/governing-tools.ts'
import { toolChecks, writtenOutNames } from '../../test/support/tool-invariants.ts'
import { permissions } from '../contract/permissions.ts'
import { ruledNameOf, spellingsOf } from '../contract/tool-spellings.ts'
import { loadAllTools } from './index.ts'
import { createCatalog, createPreparedCatalog } from './runtime/catalog.ts'
import { defineTool, type ToolDefinition, toolsets } from './runtime/define-tool.ts'
import { defaultTools } from './runtime/exposure.ts'
import { preparedTools } from './runtime/prepared-tools.ts'

const allTools = await loadAllTools()

const catalog = createCatalog(allTools)
const names: ReadonlySet<string> = new Set(catalog.names)
/** The name of an alias may map to the same file name as its tool's, so its file has the suffix `-alias`. */
const fileOf = ({ name, aliasOf }: ToolDefinition): string =>
  `${name.replaceAll(/[_.]/g, '-')}${aliasOf === undefined ? '' : '-alias'}.ts`

describe('every tool', () => {
  it.each(Object.entries(toolChecks))('keeps the rule %s', (_rule, check) => {
    expect(catalog.tools.flatMap((tool) => check(tool, names).map((fault) => `${tool.name}: ${fault}`))).toEqual([])
  })
})

it('needs a permission of which it is known whether it governs', () => {
  const resources = new Set(permissions.map((permission) => permission.split(':')[0]))
  expect([...governingResources, ...workingResources].toSorted()).toEqual([...resources].toSorted())
})

it('that is another one under a name of its own is known as that to rules', () => {
  const said = /(?:older spelling of|Another name of|The same as) ([a-z._]+[a-z])/
  const same = catalog.tools.flatMap(({ name, definition }) => {
    const other = said.exec(definition.description)?.[1]
    return other === undefined ? [] : [[name, other]]
  })
  expect(same.map(([name]) => name).toSorted()).toEqual(
    catalog.names.filter((name) => ruledNameOf(name) !== name).toSorted(),
  )
  for (const [name, other] of same) {
    expect(ruledNameOf(name!)).toBe(other)
    expect(spellingsOf(other!).toSorted()).toEqual([name, other].toSorted())
  }
  for (const { name, definition } of catalog.tools)
    if (definition.aliasOf !== undefined) expect(ruledNameOf(name)).toBe(definition.aliasOf)
})

describe('the prepared catalogue', () => {
  it('has what the definitions have', () => {
    const prepared = createPreparedCatalog(preparedTools().tools, async () => [])
    const facts = ({ tools }: typeof prepared) => tools.map(({ load: _, ...tool }) => tool)
    expect(facts(prepared)).toEqual(facts(catalog))
  })

  it('loads a toolset when one of its tools is asked for, and answers from then on without waiting', async () => {
    const asked: string[] = []
    const prepared = createPreparedCatalog(preparedTools().tools, async (toolset) => {
      asked.push(toolset)
      return allTools[toolset]
    })
    expect(asked).toEqual([])
    const tool = prepared.find('task_create')!
    const definition = await tool.load()
    expect(definition).toBe(allTools.ledger.find(({ name }) => name === 'task_create'))
    expect(tool.load()).toBe(definition)
    expect(asked).toEqual(['ledger'])
  })

  it.each<[what: string, differing: Partial<ToolDefinition>]>([
    ['rights', { permission: 'task:read' }],
    ['name', { name: 'task_make' }],
  ])('runs nothing whose %s it does not know', async (_what, differing) => {
    const prepared = createPreparedCatalog(preparedTools().tools, async (toolset) =>
      allTools[toolset].map((tool) => (tool.name === 'task_create' ? { ...tool, ...differing } : tool)),
    )
    await expect(prepared.find('task_create')!.load()).rejects.toThrow('run npm run gen')
    await expect(prepared.find('task_get')!.load()).resolves.toBeDefined()
  })
})

describe('the folders of the tools', () => {
  it('hold every toolset', () => {
    expect(Object.keys(allTools).sort()).toEqual([...toolsets].sort())
  })

  it.each(toolsets)('hold for %s one file for each tool that is listed, named like the tool', async (toolset) => {
    const definitions = new Map<string, ToolDefinition>()
    for (const folder of foldersOf(toolset)) {
      const files = await readdir(new URL(`${folder}/`, import.meta.url))
      for (const file of files.filter((name) => !name.endsWith('.test.ts'))) {
        const module = (await import(`./${folder}/${basename(file, '.ts')}.ts`)) as { default?: ToolDefinition }
        if (module.default !== undefined) definitions.set(file, module.default)
      }
    }
    expect([...definitions.keys()].sort()).toEqual(allTools[toolset].map(fileOf).sort())
    for (const definition of allTools[toolset]) expect(definitions.get(fileOf(definition))).toBe(definition)
  })
})

describe('the hints of tools', () => {
  it('do not call destructive what only makes something new, or leaves that to what it runs', () => {
    const hints = (name: string) => catalog.find(name)!.listed.annotations
    for (const name of ['run_tool', 'workspace_create', 'workspace_fork']) {
      expect([name, hints(name).destructiveHint, hints(name).openWorldHint]).toEqual([name, false, false])
    }
    expect(hints('exec')).toMatchObject({ destructiveHint: true, openWorldHint: true })
    expect(hints('workspace_destroy')).toMatchObject({ destructiveHint: true })
  })
})

describe('lists of tools', () => {
  it('name only tools that exist', () => {
    expect([...defaultTools, ...writtenOutNames].filter((name) => !names.has(name))).toEqual([])
  })

  it('keep the default exposure small enough to read, and able to reach the rest', () => {
    expect(defaultTools.length).toBeLessThanOrEqual(20)
    expect(defaultTools).toEqual(expect.arrayContaining(['search_tools', 'run_tool']))
    expect(new Set(defaultTools).size).toBe(defaultTools.length)
  })
})

describe('the rules for tools', () => {
  const good = {
    name: 'task_archive',
    toolset: 'ledger',
    title: 'Archive a task',
    description: 'Put a task out of sight. Use task_list to find it.',
    permission: 'task:update',
    tier: 'user',
    effect: 'update',
    idempotent: true,
    rate: 'default',
    skipJudge: false,
    input: z.strictObject({ task_id: z.string().max(64).describe('Task id.') }),
    output: z.strictObject({ task_id: z.string() }),
    run: () => ({ task_id: 'T-0001' }),
  } as const satisfies ToolDefinition

  const rulesBroken = (definition: object): string[] => {
    const [tool] = createCatalog({ ledger: [defineTool(definition as ToolDefinition)] }).tools
    return Object.entries(toolChecks)
      .filter(([, check]) => check(tool!, names).length > 0)
      .map(([rule]) => rule)
  }
  const outward = { effect: 'external' } as const
  const withAction = (rules: object) => ({
    ...good,
    ...outward,
    input: z.strictObject({ action: z.enum(['go', 'look']) }),
    actions: { go: rules },
  })
  const withInput = (input: z.ZodType) => ({ ...good, input: z.strictObject({ value: input }) })

  const bad: readonly (readonly [rule: string, what: string, definition: object])[] = [
    ['name', 'capitals', { ...good, name: 'taskArchive' }],
    ['title', 'a sentence', { ...good, title: 'Archive a task.' }],
    ['description', 'a word', { ...good, description: 'Archive.' }],
    ['description', 'an essay', { ...good, description: `${'Archive a task. '.repeat(30)}.` }],
    ['mentions', 'a tool that is not there', { ...good, description: 'Put a task away. See also task_unarchive.' }],
    [
      'annotations',
      'a read that is not idempotent',
      { ...good, ...{ effect: 'read', permission: 'task:read' }, idempotent: false },
    ],
    ['permission', 'none', { ...good, permission: null }],
    ['permission', 'a write that asks to read', { ...good, permission: 'task:read' }],
    ['permission', 'an action that writes and asks to read', withAction({ permission: 'task:read' })],
    ['governs', 'a right that is given', { ...good, permission: 'ac:update' }],
    ['governs', 'a mark that the list denies', { ...good, name: 'role_delete', trust: { governs: true } }],
    [
      'changes',
      'an edit without anything to change',
      { ...withInput(z.string().max(9).describe('Title.').optional()), name: 'task_update' },
    ],
    ['actions', 'one that the tool does not have', { ...withAction({}), actions: { stop: {} } }],
    ['actions', 'rules, but nothing to choose by', { ...good, ...outward, actions: { go: {} } }],
    ['actions', 'a tool that is less than what its actions may do', { ...withAction({}), effect: 'update' }],
    ['judge', 'a write that skips it', { ...good, skipJudge: true }],
    ['audit', 'content that is kept', { ...good, audit: 'content' }],
    ['minimal', 'a tool that needs the store', { ...good, minimal: true }],
    ['output', 'none', { ...good, output: undefined }],
    ['inputShape', 'any object', { ...good, input: z.looseObject({}) }],
    ['references', 'a recursive part', { ...good, output: z.strictObject({ task_id: z.string(), tree: z.json() }) }],
    ['nestedAlternatives', 'two types', withInput(z.union([z.string().max(9), z.boolean()]).describe('Either.'))],
    ['parameterText', 'a bare parameter', withInput(z.boolean())],
    ['parameterName', 'camel case', { ...good, input: z.strictObject({ taskId: z.string().max(9).describe('Id.') }) }],
    ['parameterBounds', 'a long text', withInput(z.string().describe('Text.'))],
    ['parameterBounds', 'a long list', withInput(z.array(z.boolean()).describe('Flags.'))],
    ['parameterBounds', 'a large number', withInput(z.number().min(0).describe('Number.'))],
    ['parameterBounds', 'a long text inside', withInput(z.array(z.string()).max(3).describe('Texts.'))],
  ]

  it('let a good tool pass', () => {
    expect(rulesBroken(good)).toEqual([])
    expect(rulesBroken(withAction({ permission: 'task:read', effect: 'read', rate: 'exec' }))).toEqual([])
  })

  it.each(bad)('refuse by the rule %s: %s', (rule, _what, definition) => {
    expect(rulesBroken(definition)).toEqual([rule])
  })

  it('have each been seen to fail', () => {
    expect(new Set(bad.map(([rule]) => rule))).toEqual(new Set(Object.keys(toolChecks)))
  })
})
