import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { ask, startClient } from '../support/castellan-client.ts'
import { endSupervisor } from '../support/end-supervisor.ts'
import { agentYaml } from '../support/executions.ts'
import { filesBelow } from '../support/files-below.ts'
import { startScriptedModel } from '../support/scripted-model.ts'
import { workflowYaml } from '../support/workflows.ts'

/** Secrets of the configuration in the real program: used, and in no record. */
const TOKEN = 'tok-7f3Kq"9$zz-secret-value'
const MODEL_KEY = 'sk-model-key-0123456789'
const forms = [TOKEN, JSON.stringify(TOKEN).slice(1, -1), Buffer.from(TOKEN).toString('base64').slice(0, -4), MODEL_KEY]

let cleanups: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.toReversed()) await cleanup()
  cleanups = []
})

const script = [
  'printf %s "$TOKEN" > /workspace/token',
  `printf '%s\\n' '#!/bin/sh' 'echo "out $TOKEN"; echo "err $TOKEN" >&2; printf %s "$TOKEN" | base64' > /workspace/boot`,
  'chmod +x /workspace/boot',
].join('; ')
const printing = `  task: { instruction: "Look." }
  tools: [fs.read]
  env: { TOKEN: "secret:token" }
  execution: { mode: one-shot }
  advanced:
    startup_script: ${JSON.stringify(script)}
    bootstrap_path: /workspace/boot
`
const failing = `  task: { instruction: "Look." }
  tools: [fs.read]
  env: { TOKEN: "secret:token" }
  advanced: { startup_script: 'echo "failed with $TOKEN" >&2; exit 3' }
`
const shared = `
A: { kind: Agent, agent: printing, input: "go", transitions: [{ condition: always, target: B }] }
B: { kind: System, command: update_blackboard, env: { seen: "{{A.output}}" }, transitions: [] }`

test('a secret that a command prints, or that is read or thrown, is in no answer, no record and no question', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'castellan-secrets-'))
  const model = await startScriptedModel(({ messages }) =>
    messages.some(({ role }) => role === 'tool')
      ? { text: 'looked' }
      : { toolCalls: [{ name: 'fs_read', arguments: { path: 'token' } }] },
  )
  cleanups.push(async () => {
    await model.stop()
    await endSupervisor(dataDir)
    rmSync(dataDir, { recursive: true, force: true })
  })
  const provider = { name: 'scripted', type: 'openai', endpoint: `${model.url}/v1`, api_key: 'env:MODEL_KEY' }
  const config = {
    models: { providers: [{ ...provider, models: [{ alias: 'default', model: 'm' }] }] },
    executions: { secrets: ['token env:MY_TOKEN'] },
  }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify(config))
  const client = await startClient({ dataDir, environment: { MODEL_KEY, MY_TOKEN: TOKEN } })
  cleanups.push(async () => {
    client.kill('SIGKILL')
    await client.ended
  })
  const answers: unknown[] = []
  const asked = async (tool: string, args: object) => {
    const answer = await ask(client, tool, args)
    answers.push(answer)
    return answer
  }

  for (const [name, spec] of Object.entries({ printing, failing })) {
    await asked('aegis.agent.create', { manifest_yaml: agentYaml(name, spec) })
    const { execution_id } = await asked('aegis.task.execute', { agent_id: name })
    const end = await asked('aegis.task.wait', { execution_id, timeout_seconds: 40 })
    if (name === 'printing')
      expect(end).toMatchObject({ status: 'completed', last_output: expect.stringContaining('out ***') })
    else expect(end).toMatchObject({ status: 'failed', last_error: expect.stringContaining('startup_script') })
    for (const tool of ['aegis.task.status', 'aegis.task.logs']) await asked(tool, { execution_id })
    await asked('aegis.agent.export', { name })
  }
  await asked('aegis.workflow.create', { manifest_yaml: workflowYaml('shared', shared) })
  const { execution_id } = await asked('aegis.workflow.run', { name: 'shared' })
  const end = await asked('aegis.workflow.wait', { execution_id })
  expect(end).toMatchObject({ status: 'completed', blackboard: { seen: expect.stringContaining('out ***') } })
  for (const tool of ['aegis.workflow.status', 'aegis.workflow.logs']) await asked(tool, { execution_id })

  expect(model.requests.some(({ text }) => text.includes('***'))).toBe(true)
  client.endInput()
  await client.ended
  await endSupervisor(dataDir)
  const said = JSON.stringify([answers, model.requests]) + client.stderr()
  const files = filesBelow(dataDir)
  expect(files.some((file) => file.includes('.db') || file.includes('sqlite'))).toBe(true)
  for (const form of forms) {
    expect(said.includes(form), form).toBe(false)
    expect(files.filter((file) => readFileSync(file).includes(form))).toEqual([])
  }
})
