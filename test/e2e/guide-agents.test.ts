import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { ask } from '../support/castellan-client.ts'
import { readGuide } from '../support/guide.ts'
import { setGuideStage } from '../support/guide-stage.ts'
import { setModelStage } from '../support/model-stage.ts'
import type { Line, SeenRequest } from '../support/scripted-model.ts'

const guide = readFileSync(new URL('../../docs/guides/agents.md', import.meta.url), 'utf8')

const call = (name: string, args: object): Line => ({ toolCalls: [{ name, arguments: args }] })
const edit = (target_content: string, replacement_content: string): Line =>
  call('fs_edit', { path: '/workspace/src/slug.py', target_content, replacement_content })
const tests = (name: string): Line => call('cmd_run', { command: 'python3', args: ['-m', 'unittest', name] })

const started = 'def slug(title):\n    return title.lower().replace(" ", "-")'
const half = 'def slug(title):\n    return "-".join(title.lower().split())'
const whole = 'import re\n\n\ndef slug(title):\n    return "-".join(re.findall(r"\\w+", title.lower()))'
const firstTry: readonly Line[] = [
  call('fs_read', { path: '/workspace/src/slug.py' }),
  edit(started, half),
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

test('the guide to agents is true, command by command', async () => {
  const read = readGuide(guide)
  const stage = await setGuideStage(read, model)
  await stage.follow()
  expect(read.commands.map(({ command }) => command)).toContain('castellan verify')
  expect(stage.requests).toHaveLength(firstTry.length + secondTry.length)

  const [told] = /^Previous attempts[\s\S]*?(?=^```$)/m.exec(guide)!
  stage.transcript.compare(`${told}…`, stage.requests[firstTry.length]!.text)
})

test('in a workspace of its own, a persistent volume keeps the workspace, and the log says which it is', async () => {
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
