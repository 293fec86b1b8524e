import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { launcher } from '../support/castellan-client.ts'
import { endSupervisor } from '../support/end-supervisor.ts'
import { createTranscript, readGuide } from '../support/guide.ts'
import { ask, setModelStage } from '../support/model-stage.ts'
import { homeEnvironment } from '../support/run-castellan.ts'
import { type Line, type SeenRequest, startScriptedModel } from '../support/scripted-model.ts'
import { startServe } from '../support/serve-client.ts'

const guide = readFileSync(new URL('../../docs/guides/agents.md', import.meta.url), 'utf8')

const call = (name: string, args: object): Line => ({ toolCalls: [{ name, arguments: args }] })
const edit = (target_content: string, replacement_content: string): Line =>
  call('fs_edit', { path: '/workspace/src/slug.py', target_content, replacement_content })
const tests = (name: string): Line => call('cmd_run', { command: 'python3', args: ['-m', 'unittest', name] })

const begun = 'def slug(title):\n    return title.lower().replace(" ", "-")'
const half = 'def slug(title):\n    return "-".join(title.lower().split())'
const whole = 'import re\n\n\ndef slug(title):\n    return "-".join(re.findall(r"\\w+", title.lower()))'
const firstTry: readonly Line[] = [
  call('fs_read', { path: '/workspace/src/slug.py' }),
  edit(begun, half),
  tests('tests.test_slug.Slug.test_spaces'),
  { text: 'Spaces at the ends and in a row no longer become dashes.' },
]
const secondTry: readonly Line[] = [
  edit(half, whole),
  tests('tests.test_slug'),
  { text: 'Slugs are made of the words of a title; marks are left out.' },
]

/** Only what failed in the first try, told to the second, makes it better. */
const model = ({ text: asked, messages }: SeenRequest): Line => {
  const isTold = asked.includes("AssertionError: 'what-is-new?' != 'what-is-new'")
  return (isTold ? secondTry : firstTry)[messages.filter(({ role }) => role === 'tool').length]!
}

/** A server with the configuration of the guide, but for the address of the model. */
async function setStage(config: string) {
  const home = mkdtempSync(join(tmpdir(), 'castellan-guide-'))
  const dataDir = join(home, 'data')
  mkdirSync(dataDir)
  mkdirSync(join(home, 'bin'))
  symlinkSync(launcher, join(home, 'bin', 'castellan'))
  const scripted = await startScriptedModel(model)
  const { models } = parse(config) as { models: { providers: object[] } }
  const providers = models.providers.map((provider) => ({ ...provider, endpoint: `${scripted.url}/v1` }))
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models: { providers } }))
  const key = { ANTHROPIC_API_KEY: 'k' }
  const server = await startServe(dataDir, key)
  onTestFinished(async () => {
    server.kill('SIGTERM')
    await server.ended
    await scripted.stop()
    await endSupervisor(dataDir)
    rmSync(home, { recursive: true, force: true })
  })
  const path = `${join(home, 'bin')}:${process.env['PATH']}`
  const env = homeEnvironment(home, { ...key, CASTELLAN_DATA_DIR: dataDir, PATH: path })
  return {
    home,
    requests: scripted.requests,
    async run(command: string): Promise<string> {
      const child = spawn('sh', ['-c', command], { cwd: home, env, stdio: ['ignore', 'pipe', 'pipe'] })
      const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
      expect(code, `${command}\n${stdout}${stderr}`).toBe(0)
      return stdout
    },
  }
}

test('the guide to agents is true, command by command', async () => {
  const { files, commands } = readGuide(guide)
  const stage = await setStage(files.get('castellan.yaml')!)
  for (const [name, content] of files) writeFileSync(join(stage.home, name), content)
  const transcript = createTranscript()
  for (const { command, answer } of commands) {
    transcript.compare(answer, await stage.run(transcript.inThisRun(command)))
  }
  expect(commands.map(({ command }) => command)).toContain('castellan verify')
  expect(stage.requests).toHaveLength(firstTry.length + secondTry.length)

  const [told] = /^Previous attempts[\s\S]*?(?=^```$)/m.exec(guide)!
  transcript.compare(`${told}…`, stage.requests[firstTry.length]!.text)
})

test('without a workflow, a persistent volume keeps the workspace, and the log says which it is', async () => {
  const { files } = readGuide(guide)
  const { spec, ...manifest } = parse(files.get('fixer.yaml')!) as { spec: { advanced: object } }
  const volume = { name: 'code', storage_class: 'persistent', mount_path: '/workspace', access_mode: 'read-write' }
  const advanced = { ...spec.advanced, startup_script: files.get('make-project.sh')! }
  const manifest_yaml = stringify({
    ...manifest,
    spec: { ...spec, advanced, volumes: [{ ...volume, size_limit: '1Gi' }] },
  })
  const client = await (await setModelStage(model)).start()
  await ask(client, 'aegis.agent.create', { manifest_yaml })
  const { execution_id } = await ask(client, 'aegis.task.execute', { agent_id: 'fixer' })
  expect(await ask(client, 'aegis.task.wait', { execution_id })).toMatchObject({ status: 'completed' })
  type Events = { events: { event_type: string; payload: { workspace_id?: string } }[] }
  const { events } = await ask<Events>(client, 'aegis.task.logs', { execution_id })
  const { payload } = events.find(({ event_type }) => event_type === 'instance_spawned')!
  const at = { workspace_id: payload.workspace_id, path: '/workspace' }
  expect(await ask(client, 'git_diff', at)).toMatchObject({ diff: expect.stringContaining('+import re') })
})
