import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { describe, expect, test } from 'vitest'
import { blocksOf, guideBlocks as guide, setReaderStage } from '../support/guide-blocks.ts'
import { isLongRun } from '../support/long-run.ts'
import { startMcpUpstream } from '../support/mcp-upstream.ts'
import { homeEnvironment } from '../support/run-castellan.ts'
import { startScriptedModel } from '../support/scripted-model.ts'

/** The blocks of the guides are carried out as they are written. Some guides have a test of their own. */
const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

const followed = ['backup', 'first-steps', 'limits', 'policies', 'several-clients', 'verify-the-log', 'workspaces']
const configured = ['configuration', 'durability', 'executions', 'model-proxy', 'workspaces']

/** The kinds of blocks that are carried out, in this file or in the one beside it that is named after the guide. */
const carriedOut: Readonly<Record<string, string>> = {
  'add-a-tool': 'sh ts',
  agents: 'console sh yaml',
  'api-keys': 'sh',
  backup: 'sh',
  clients: 'js json sh toml yaml',
  configuration: 'console yaml',
  durability: 'yaml',
  executions: 'sh yaml',
  'first-steps': 'sh',
  gateways: 'sh',
  limits: 'console sh',
  'model-proxy': 'sh yaml',
  people: 'sh yaml',
  policies: 'console sh',
  remote: 'sh',
  'several-clients': 'console',
  'signed-calls': 'json ts',
  team: 'sh yaml',
  'verify-the-log': 'console sh',
  'workflow-texts': 'yaml',
  workflows: 'console mermaid sh yaml',
  workspaces: 'json sh yaml',
}

test('every guide with something to do is tried', () => {
  const kindsOf = (name: string): string =>
    [...new Set(guide(name).map(({ language }) => language))]
      .filter((language) => language !== 'text')
      .sort()
      .join(' ')
  const found = readdirSync(new URL('../../docs/guides', import.meta.url))
    .map((file) => file.replace(/\.md$/, ''))
    .map((name) => [name, kindsOf(name)] as const)
    .filter(([, kinds]) => kinds !== '')
  expect(Object.fromEntries(found)).toEqual(carriedOut)
})

test.each(followed)('%s: every command does what it says', { timeout: 300_000 }, async (name) => {
  // Each command is then a process of its own, and adds the entries that the guide counts.
  const stage = await setReaderStage({ serve: name !== 'verify-the-log' && name !== 'backup' })
  for (const block of guide(name)) if (!block.isLong || isLongRun) await stage.follow(block)
})

describe.each(configured)('%s: its settings', (name) => {
  const files = guide(name).filter(({ language, body }) => language === 'yaml' && !body.startsWith('# broken.yaml'))
  test.each(files.map(({ body }) => [body]))('are valid: %s', async (body) => {
    const stage = await setReaderStage({ serve: false })
    writeFileSync(join(stage.home, 'tried.yaml'), body)
    const input = 'ANTHROPIC_API_KEY=k GITHUB_AUTHORIZATION=g DATABASE_URL=postgres://ann@127.0.0.1/castellan'
    expect(await stage.run(`${input} castellan config validate --config tried.yaml`)).toMatchObject({ code: 0 })
  })
})

test('configuration: what is wrong with a file is told at its place', async () => {
  const stage = await setReaderStage()
  for (const block of guide('configuration')) await stage.follow(block)
})

test('gateways: the servers of an editor behind one address', async () => {
  await using upstream = await startMcpUpstream()
  const stage = await setReaderStage({ config: 'web: { allow_private_addresses: ["127.0.0.1"] }\n' })
  mkdirSync(join(stage.home, '.cursor'))
  const file = { mcpServers: { notes: { url: upstream.url } } }
  writeFileSync(join(stage.home, '.cursor/mcp.json'), JSON.stringify(file))
  const here = (body: string): string => body.replace('http://127.0.0.1:7433', new URL(stage.url).origin)
  for (const block of guide('gateways')) await stage.follow({ ...block, body: here(block.body) })
  const client = new Client({ name: 'editor', version: '1' })
  await client.connect(new StreamableHTTPClientTransport(new URL(stage.claudeServer().url!)) as Transport)
  const { tools } = await client.listTools()
  expect(tools.map(({ name }) => name).sort()).toEqual(['run_tool', 'search_tools'])
  const call = { tool_name: 'notes__echo', tool_args: { text: 'hello' } }
  expect(await client.callTool({ name: 'run_tool', arguments: call })).toMatchObject({ content: [{ text: 'hello' }] })
  await client.close()
})

test('model-proxy: a model is asked through the server', async () => {
  const model = await startScriptedModel(({ messages }) =>
    messages.at(-1)!.role === 'tool' ? { toolCalls: [{ name: 'send_mail', arguments: {} }] } : { text: 'Hello.' },
  )
  const provider = {
    name: 'anthropic',
    type: 'anthropic',
    endpoint: `${model.url}/v1`,
    models: [
      { alias: 'default', model: 'm' },
      { alias: 'small', model: 'claude-haiku-4-5' },
    ],
  }
  const stage = await setReaderStage({ config: JSON.stringify({ models: { providers: [provider] } }) })
  const here = (body: string): string =>
    body
      .replaceAll('http://127.0.0.1:7433', new URL(stage.url).origin)
      .replaceAll('$ANTHROPIC_API_KEY', 'sk-ant-of-a-reader')
  for (const block of guide('model-proxy')) {
    if (block.language === 'sh') await stage.follow({ ...block, body: here(block.body) })
  }
  expect(model.requests[0]!.text).toBe('Say hello.')
  expect(model.requests).toHaveLength(2)
  await model.stop()
})

test('executions: an agent is run and waited for', async () => {
  const model = await startScriptedModel(() => ({ text: 'Done.' }))
  const provider = {
    name: 'anthropic',
    type: 'openai',
    endpoint: `${model.url}/v1`,
    models: [{ alias: 'default', model: 'm' }],
  }
  const stage = await setReaderStage({ config: JSON.stringify({ models: { providers: [provider] } }) })
  const manifest = {
    apiVersion: '100monkeys.ai/v1',
    kind: 'Agent',
    metadata: { name: 'changelog-writer', version: '1.0.0' },
    spec: { runtime: { language: 'python', version: '3.11' }, task: { instruction: 'Write.' } },
  }
  writeFileSync(join(stage.home, 'agent.yaml'), JSON.stringify(manifest))
  expect(await stage.run('castellan call aegis.agent.create manifest_yaml=@agent.yaml')).toMatchObject({ code: 0 })
  for (const block of guide('executions')) if (block.language === 'sh') await stage.follow(block)
  await model.stop()
})

test('add-a-tool: its tool is made and answers', { timeout: 300_000 }, async () => {
  const stage = await setReaderStage({ serve: false })
  const clone = join(stage.home, 'castellan')
  for (const name of [
    'ARCHITECTURE.md',
    'bin',
    'docs',
    'package.json',
    'scripts',
    'src',
    'surface',
    'templates',
    'test/repo',
  ]) {
    cpSync(resolve(name), join(clone, name), { recursive: true })
  }
  symlinkSync(resolve('node_modules'), join(clone, 'node_modules'))
  const change = (path: string, from: string, to: string): void => {
    const text = readFileSync(join(clone, path), 'utf8')
    expect(text).toContain(from)
    writeFileSync(join(clone, path), text.replace(from, to))
  }
  const [method, definition, commands] = guide('add-a-tool').map(({ body }) => body)
  change('src/domains/tasks/service.ts', '  return { create, ', `${method}\n  return { getProject, create, `)
  writeFileSync(join(clone, 'src/tools/tasks/project-get.ts'), definition!)
  change('src/tools/tasks/index.ts', '  projectList,', '  projectGet,\n  projectList,')
  change(
    'src/tools/tasks/index.ts',
    'import projectList',
    "import projectGet from './project-get.ts'\nimport projectList",
  )
  const { code, output } = await stage.run(`cd castellan\n${commands}`)
  expect(code, output).toBe(0)
  expect(output).toMatch(/surface\/tools\/project_get\.json[\s\S]*"task_count": 0[\s\S]*"created_by": "owner"\n\}\n$/)
})

test('clients: programs with the SDK and without it', async () => {
  const stage = await setReaderStage()
  symlinkSync(resolve('node_modules/@modelcontextprotocol'), join(stage.home, 'node_modules/@modelcontextprotocol'))
  const here = (body: string): string =>
    body.replaceAll('/path/to/castellan', resolve('.')).replaceAll('http://127.0.0.1:7433', new URL(stage.url).origin)
  const tried = guide('clients').filter(({ language }) => language === 'js' || language === 'sh')
  const outputs: string[] = []
  for (const { language, body } of tried) {
    writeFileSync(join(stage.home, 'program.mjs'), here(body))
    const { code, output } = await stage.run(language === 'js' ? 'node program.mjs' : here(body))
    expect(code, `${body}\n${output}`).toBe(0)
    outputs.push(output)
  }
  expect(outputs).toEqual([
    expect.stringContaining("task_id: 'T-0001'"),
    expect.stringContaining("'task_create'"),
    expect.stringContaining('"total_count":1'),
  ])
})

test('clients, API keys and README: every file can be read, and leads to the server', async () => {
  const stage = await setReaderStage()
  const ofReadme = blocksOf(read('README.md')).filter(({ language }) => language === 'json')
  const ofGuide = guide('clients').filter(({ language }) => language !== 'js' && language !== 'sh')
  const [codex, ...others] = [...ofGuide, ...ofReadme]
  const withApproval = others.findIndex(({ language }) => language === 'toml')
  // The second file for Codex goes on from the first.
  const files = others.with(withApproval, { ...codex!, body: `${codex!.body}${others[withApproval]!.body}` })
  const here = (body: string): string =>
    body.replace('/path/to/castellan', resolve('.')).replace(/https?:\/\/(127\.0\.0\.1|HOST):7433\/mcp/, stage.url)
  for (const { language, body } of [codex!, ...files]) {
    writeFileSync(join(stage.home, `client.${language}`), here(body))
    const imported = await stage.run(`castellan import client.${language} --dry-run --json`)
    const { servers, problems } = JSON.parse(imported.output) as { servers: ImportedServer[]; problems: unknown[] }
    expect([servers.length, problems], body).toEqual([1, []])
    const [server] = servers
    if (server!.transport === 'http') await leadsToTools(stage.home, { url: server!.url })
    else await leadsToTools(stage.home, { command: [server!.command, ...server!.args] })
  }
  const pages = `${read('README.md')}${read('docs/guides/api-keys.md')}`
  const [created] = /^(castellan keys create .*)$/m.exec(pages)!.slice(1)
  const key = (await stage.run(`${created} 2> /dev/null`)).output.match(/^cst_\S+$/m)![0]
  for (const [line] of pages.matchAll(/^claude mcp add .*$/gm)) {
    expect(await stage.run(`CASTELLAN_API_KEY=${key}\n${here(line)}`), line).toMatchObject({ code: 0 })
    await leadsToTools(stage.home, stage.claudeServer())
  }
})

type ImportedServer = Readonly<
  { transport: 'http'; url: string } | { transport: 'stdio'; command: string; args: string[] }
>
type Address = Readonly<{ url?: string; command?: readonly string[]; headers?: Readonly<Record<string, string>> }>

async function leadsToTools(home: string, { url, command, headers = {} }: Address): Promise<void> {
  const [program, ...args] = command ?? []
  const env = homeEnvironment(home) as Record<string, string>
  const client = new Client({ name: 'guide', version: '1.0.0' })
  await client.connect(
    (url === undefined
      ? new StdioClientTransport({ command: program!, args, env, stderr: 'ignore' })
      : new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } })) as Transport,
  )
  expect((await client.listTools()).tools.map(({ name }) => name)).toContain('run_tool')
  await client.close()
}

test('workflow-texts: its states can be deployed', async () => {
  const stage = await setReaderStage()
  for (const { body } of guide('workflow-texts').filter(({ language }) => language === 'yaml')) {
    const head = 'apiVersion: 100monkeys.ai/v1\nkind: Workflow\nmetadata: { name: texts, version: 1.0.0 }\n'
    const states = body.replace(/^/gm, '    ')
    writeFileSync(join(stage.home, 'texts.yaml'), `${head}spec:\n  initial_state: BUILD\n  states:\n${states}`)
    const checked = await stage.run('castellan call aegis.workflow.validate manifest_yaml=@texts.yaml --json')
    expect(checked.output).toContain('"valid":true')
  }
})
