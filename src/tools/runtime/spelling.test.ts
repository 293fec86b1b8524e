import { describe, expect, it } from 'vitest'
import { loadAllTools } from '../index.ts'
import { createCatalog } from './catalog.ts'
import { createSpelling } from './spelling.ts'

const allTools = await loadAllTools()

const { spelling, tools } = createCatalog(allTools)

describe('texts for clients that see safe names', () => {
  it.each([
    ['Use fs.read.', 'Use fs_read.'],
    ['fs.read, fs.write', 'fs_read, fs_write'],
    ["'aegis.execute.wait' waits", "'aegis_execute_wait' waits"],
    ['The same as aegis.execute: see aegis.execute.intent', 'The same as aegis_execute: see aegis_execute_intent'],
    ['fs.create.dir and fs.create_dir', 'fs_create_dir and fs_create_dir'],
    ['names such as fs.*', 'names such as fs.*'],
    [
      'my.fs.read, fs.reader, fs.read.more, /etc/fs.read-only',
      'my.fs.read, fs.reader, fs.read.more, /etc/fs.read-only',
    ],
    ['exec and task_list', 'exec and task_list'],
  ])('%s', (input, expected) => {
    expect(spelling.text(input)).toBe(expected)
  })

  it('have the same spelling at every depth', () => {
    expect(spelling.texts({ nearest: ['fs.read'], at: { tool: 'cmd.run' }, n: 1, none: null })).toEqual({
      nearest: ['fs_read'],
      at: { tool: 'cmd_run' },
      n: 1,
      none: null,
    })
  })

  it('leave everything of a schema but its descriptions', () => {
    const schema = { description: 'See fs.read.', const: 'fs.read', enum: ['fs.read'], properties: { 'fs.read': {} } }
    expect(spelling.schema(schema)).toEqual({ ...schema, description: 'See fs_read.' })
  })

  it('cost nothing where all names are safe', () => {
    const text = 'task_list'
    expect(createSpelling([{ name: text, safeName: text }]).text(text)).toBe(text)
  })

  it('name no tool otherwise than the list of safe names', () => {
    const dotted = tools.filter(({ name, safeName }) => name !== safeName).map(({ name }) => name)
    const texts = JSON.stringify(
      tools.map(({ listedSafe: { description, inputSchema } }) => [description, inputSchema]),
    )
    expect(dotted.length).toBeGreaterThan(50)
    expect(dotted.filter((name) => new RegExp(`\\b${name.replaceAll('.', '\\.')}\\b`).test(texts))).toEqual([])
  })

  it('and those lists have no name twice, with dots replaced or not', () => {
    const listed = tools
      .filter(({ definition }) => definition.aliasOf === undefined)
      .map((tool) => tool.listedSafe.name)
    expect(new Set(listed).size).toBe(listed.length)
    expect(listed.filter((name) => !/^[a-zA-Z0-9_-]{1,64}$/.test(name))).toEqual([])
  })
})
