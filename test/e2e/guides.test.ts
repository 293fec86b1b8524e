import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { describe, expect, test } from 'vitest'
import { type Block, blocksOf, setReaderStage } from '../support/guide-blocks.ts'
import { isLongRun } from '../support/long-run.ts'
import { startMcpUpstream } from '../support/mcp-upstream.ts'
import { PASSWORD, postForm, signIn } from '../support/people.ts'
import { homeEnvironment } from '../support/run-castellan.ts'
import { startScriptedModel } from '../support/scripted-model.ts'

/** The blocks of the guides are carried out as they are written. Some guides have a test of their own. */
const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
const guide = (name: string): Block[] => blocksOf(read(`docs/guides/${name}.md`))

type Stage = Awaited<ReturnType<typeof setReaderStage>>

const elsewhere = ['agents', 'workflows']
const followed = ['several-clients', 'verify-the-log', 'workspaces']
const configured = ['configuration', 'durability', 'executions', 'workspaces']

test('every guide with something to do is tried', () => {
  const withBlocks = readdirSync(new URL('../../docs/guides', import.meta.url))
    .map((file) => file.replace(/\.md$/, ''))
    .filter((name) => guide(name).some(({ language }) => language !== 'text'))
  const others = [
    'add-a-tool',
    'clients',
    'executions',
    'gateways',
    'people',
    'remote',
    'signed-calls',
    'workflow-texts',
  ]
  expect(withBlocks.sort()).toEqual([...new Set([...elsewhere, ...followed, ...configured, ...others])].sort())
})

test.each(followed)('%s: every command does what it says', { timeout: 300_000 }, async (name) => {
  // Each command is then a process of its own, and adds the entries that the guide counts.
  const stage = await setReaderStage({ serve: name !== 'verify-the-log' })
  for (const block of guide(name)) if (!block.isLong || isLongRun) await stage.follow(block)
})

test('README: the first five minutes', { timeout: 180_000 }, async () => {
  const [, section] = /^## The first five minutes\n([\s\S]*?)^## /m.exec(read('README.md'))!
  const stage = await setReaderStage()
  for (const block of blocksOf(section!)) await stage.follow(block)
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

test('gateways: the servers of an editor behind one address', { timeout: 120_000 }, async () => {
  await using upstream = await startMcpUpstream()
  const stage = await setReaderStage({ config: 'web: { allow_private_addresses: ["127.0.0.1"] }\n' })
  mkdirSync(join(stage.home, '.cursor'))
  const file = { mcpServers: { notes: { url: upstream.url } } }
  writeFileSync(join(stage.home, '.cursor/mcp.json'), JSON.stringify(file))
  for (const block of guide('gateways')) if (!block.body.startsWith('claude')) await stage.follow(block)
  const client = new Client({ name: 'editor', version: '1' })
  await client.connect(new StreamableHTTPClientTransport(new URL('/mcp/work', stage.url)) as Transport)
  const { tools } = await client.listTools()
  expect(tools.map(({ name }) => name).sort()).toEqual(['run_tool', 'search_tools'])
  const call = { tool_name: 'notes__echo', tool_args: { text: 'hello' } }
  expect(await client.callTool({ name: 'run_tool', arguments: call })).toMatchObject({ content: [{ text: 'hello' }] })
  await client.close()
})

test('executions: an agent is run and waited for', { timeout: 180_000 }, async () => {
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

test('people: every command does what it says', { timeout: 180_000 }, async () => {
  const stage = await setReaderStage()
  const links: string[] = []
  for (const { language, body } of guide('people')) {
    if (language !== 'sh') continue
    for (const line of body.trim().split('\n')) {
      // The server is running already, and the client is not ours.
      if (/^castellan serve|^claude /.test(line)) continue
      const session = line.includes('SESSION') ? await signedInSession(stage, links[0]!) : ''
      const { code, output } = await stage.run(line.replace('SESSION', session))
      expect(code, `${line}\n${output}`).toBe(0)
      links.push(...(output.match(/http:\S+/g) ?? []))
    }
  }
})

/** A session of the person whose link it is, by its id. */
async function signedInSession(stage: Stage, link: string): Promise<string> {
  const at = (path: string): URL => new URL(path, stage.url)
  const password = { password: PASSWORD, again: PASSWORD }
  expect((await postForm(at(new URL(link).pathname), password)).ok).toBe(true)
  await signIn({ url: stage.url }, { email: 'ada@example.com', password: PASSWORD })
  const { output } = await stage.run('castellan users sessions ada@example.com --json')
  return (JSON.parse(output) as { sessions: { id: string }[] }).sessions[0]!.id
}

test('signed-calls: the client calls a tool', async () => {
  const stage = await setReaderStage()
  const [block] = guide('signed-calls').filter(({ language }) => language === 'ts')
  const body = block!.body.replace('http://127.0.0.1:7433', new URL(stage.url).origin)
  writeFileSync(join(stage.home, 'signed.mjs'), `${body}\nconsole.log(JSON.stringify(agents))\n`)
  const key = await stage.run('castellan keys create signer --role admin --tier system 2>/dev/null')
  const { code, output } = await stage.run(`CASTELLAN_KEY=${key.output.trim()} node signed.mjs`)
  expect({ code, output }).toMatchObject({ code: 0, output: expect.stringContaining('agents') })
})

test('add-a-tool: its tool is made and answers', { timeout: 300_000 }, async () => {
  const stage = await setReaderStage({ serve: false })
  const clone = join(stage.home, 'castellan')
  for (const name of ['bin', 'docs', 'package.json', 'scripts', 'src', 'surface', 'templates', 'test/repo']) {
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

test('README: programs with the SDK and without it', { timeout: 180_000 }, async () => {
  const stage = await setReaderStage()
  symlinkSync(resolve('node_modules/@modelcontextprotocol'), join(stage.home, 'node_modules/@modelcontextprotocol'))
  const here = (body: string): string =>
    body.replaceAll('/path/to/castellan', resolve('.')).replaceAll('http://127.0.0.1:7433', new URL(stage.url).origin)
  const tried = blocksOf(read('README.md')).filter(({ language, body }) => language === 'js' || body.startsWith('curl'))
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

test('clients and README: every file can be read, and leads to the server', { timeout: 180_000 }, async () => {
  const stage = await setReaderStage()
  const ofReadme = blocksOf(read('README.md')).filter(({ language }) => language === 'json')
  const [codex, ...others] = [...guide('clients'), ...ofReadme]
  const withApproval = others.findIndex(({ language }) => language === 'toml')
  // The second file for Codex goes on from the first.
  const files = others.with(withApproval, { ...codex!, body: `${codex!.body}${others[withApproval]!.body}` })
  const seen = new Set<string>()
  for (const { language, body } of [codex!, ...files]) {
    const here = body.replace('/path/to/castellan', resolve('.')).replace('http://127.0.0.1:7433/mcp', stage.url)
    writeFileSync(join(stage.home, `client.${language}`), here)
    const imported = await stage.run(`castellan import client.${language} --dry-run --json`)
    const { servers, problems } = JSON.parse(imported.output) as { servers: ImportedServer[]; problems: unknown[] }
    expect([servers.length, problems], body).toEqual([1, []])
    const [server] = servers
    seen.add(server!.transport)
    const transport =
      server!.transport === 'http'
        ? new StreamableHTTPClientTransport(new URL(server!.url))
        : new StdioClientTransport({
            command: server!.command,
            args: server!.args,
            env: homeEnvironment(stage.home) as Record<string, string>,
            stderr: 'ignore',
          })
    const client = new Client({ name: 'guide', version: '1.0.0' })
    await client.connect(transport)
    expect((await client.listTools()).tools.map(({ name }) => name)).toContain('run_tool')
    await client.close()
  }
  expect(seen.size).toBe(2)
})

type ImportedServer = Readonly<
  { transport: 'http'; url: string } | { transport: 'stdio'; command: string; args: string[] }
>

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
