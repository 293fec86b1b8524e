import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type Block, blocksOf, setReaderStage } from '../support/guide-blocks.ts'
import { isLongRun } from '../support/long-run.ts'
import { startScriptedModel } from '../support/scripted-model.ts'

/** The blocks of the guides are carried out as they are written. Some guides have a test of their own. */
const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
const guide = (name: string): Block[] => blocksOf(read(`docs/guides/${name}.md`))

const elsewhere = ['agents', 'workflows']
const followed = ['several-clients', 'verify-the-log', 'workspaces']
const configured = ['configuration', 'durability', 'executions', 'workspaces']

test('every guide with something to do is tried, or named as untried', () => {
  const withBlocks = readdirSync(new URL('../../docs/guides', import.meta.url))
    .map((file) => file.replace(/\.md$/, ''))
    .filter((name) => guide(name).some(({ language }) => language !== 'text'))
  const others = ['executions', 'signed-calls', 'workflow-texts']
  // One changes the source itself, the other configures programs of others: nothing here carries their blocks out.
  const untried = ['add-a-tool', 'clients']
  expect(withBlocks.sort()).toEqual(
    [...new Set([...elsewhere, ...followed, ...configured, ...others, ...untried])].sort(),
  )
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
    const stage = await setReaderStage()
    writeFileSync(join(stage.home, 'tried.yaml'), body)
    const given = 'ANTHROPIC_API_KEY=k GITHUB_AUTHORIZATION=g DATABASE_URL=postgres://ann@127.0.0.1/castellan'
    expect(await stage.run(`${given} castellan config validate --config tried.yaml`)).toMatchObject({ code: 0 })
  })
})

test('configuration: what is wrong with a file is told at its place', async () => {
  const stage = await setReaderStage()
  for (const block of guide('configuration')) await stage.follow(block)
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

test('signed-calls: the client calls a tool', async () => {
  const stage = await setReaderStage()
  const [block] = guide('signed-calls').filter(({ language }) => language === 'ts')
  const body = block!.body.replace('http://127.0.0.1:7433', new URL(stage.url).origin)
  writeFileSync(join(stage.home, 'signed.mjs'), `${body}\nconsole.log(JSON.stringify(agents))\n`)
  const key = await stage.run('castellan keys create signer --role admin --tier system 2>/dev/null')
  const { code, output } = await stage.run(`CASTELLAN_KEY=${key.output.trim()} node signed.mjs`)
  expect({ code, output }).toMatchObject({ code: 0, output: expect.stringContaining('agents') })
})

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
