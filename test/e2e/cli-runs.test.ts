import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runCastellanHere } from '../support/castellan-here.ts'
import { endSupervisor } from '../support/end-supervisor.ts'
import { agentYaml } from '../support/executions.ts'
import { type ScriptedModel, scriptedModels, startScriptedModel } from '../support/scripted-model.ts'
import { startServerHere } from '../support/server-here.ts'
import { workflowYaml } from '../support/workflows.ts'

/** Runs that are begun from the command line, with and without a server. */
let home: string
let dataDir: string
let model: ScriptedModel
beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), 'castellan-cli-runs-'))
  dataDir = join(home, 'data')
  model = await startScriptedModel(({ text }) => (text.includes('Fail.') ? { status: 401 } : { text: 'forty-two' }))
  writeFileSync(join(home, 'castellan.yaml'), JSON.stringify(scriptedModels(model)))
  const yaml = agentYaml('answerer', '  task: { instruction: "Answer." }\n')
  expect((await call('aegis.agent.create', '--args', JSON.stringify({ manifest_yaml: yaml }))).code).toBe(0)
  const manifest_yaml = workflowYaml('ask', 'ASK: { kind: Human, prompt: "Shall it go on?", transitions: [] }')
  expect((await call('aegis.workflow.create', '--args', JSON.stringify({ manifest_yaml }))).code).toBe(0)
})
afterAll(async () => {
  await model.stop()
  await endSupervisor(dataDir)
  rmSync(home, { recursive: true, force: true })
})

const config = ['--data-dir', 'data', '--config', 'castellan.yaml']
const environment = { MODEL_KEY: 'k' }
const call = (...args: readonly string[]) => runCastellanHere(['call', ...args, ...config], { home, environment })
const execute = (...more: readonly string[]) => call('aegis.task.execute', 'agent_id=answerer', ...more)
const answerIn = ({ stdout }: { stdout: string }) => JSON.parse(stdout) as Record<string, string>
const startServer = () =>
  startServerHere({ dataDir, args: ['--config', join(home, 'castellan.yaml')], env: environment })

/** Begins a run that asks a person, and waits for its end beside the caller. */
function askHuman() {
  const question = Promise.withResolvers<{ id: string; displayed: string }>()
  let displayed = ''
  const onStderr = (piece: string) => {
    displayed += piece
    const id = /run (\S+): Shall it go on\?\n.*response=/.exec(displayed)?.[1]
    if (id !== undefined) question.resolve({ id, displayed })
  }
  const args = ['call', 'aegis.workflow.run', 'name=ask', '--wait', ...config]
  return { question: question.promise, ended: runCastellanHere(args, { home, environment, onStderr }) }
}

describe('a run begun from the command line', () => {
  test('is waited for with --wait, and how it ended is the answer and the exit code', async () => {
    const good = await execute('--wait')
    expect(good.code).toBe(0)
    expect(answerIn(good)).toMatchObject({ status: 'completed', last_output: 'forty-two' })
    expect(good.stderr).toContain(`Started ${answerIn(good)['execution_id']}.`)
    const bad = await execute('intent=Fail.', '--wait')
    expect([bad.code, answerIn(bad)['status']]).toEqual([1, 'failed'])
  })

  test('says that it goes on only with a server, and then it does', async () => {
    const started = await execute()
    const { execution_id: id } = answerIn(started)
    expect([started.code, started.stderr]).toEqual([0, expect.stringContaining(`The run ${id} has started`)])
    expect(started.stderr).toContain('castellan serve')
    const server = await startServer()
    try {
      const waited = await call('aegis.task.wait', `execution_id=${id}`)
      expect(answerIn(waited)).toMatchObject({ status: 'completed' })
      const other = await execute()
      expect([other.code, other.stderr]).toEqual([0, ''])
    } finally {
      await server.stop()
    }
  })

  test('shows the question of a person while it is waited for, and the command that answers it', async () => {
    const { question, ended } = askHuman()
    const { id, displayed } = await question
    expect(displayed).toContain(`in state ASK, run ${id}: Shall it go on?`)
    const answer = ['aegis.workflow.signal', `execution_id=${id}`]
    expect(displayed).toContain(`castellan call ${answer.join(' ')} response=`)
    const { stdout } = await runCastellanHere(['approvals', 'list', ...config], { home, environment })
    expect(stdout).toMatch(new RegExp(`^${id} +pending +ask/ASK +Shall it go on\\? +workflow ask `, 'm'))
    expect(answerIn(await call(...answer, 'response=yes'))).toMatchObject({ signalled: true })
    const finished = await ended
    expect([finished.code, answerIn(finished)['status']]).toEqual([0, 'completed'])
  })

  test('is waited for though the server that ran it ends meanwhile', async () => {
    const server = await startServer()
    const { question, ended } = askHuman()
    const { id } = await question
    await server.stop()
    const signalled = await call('aegis.workflow.signal', `execution_id=${id}`, 'response=yes')
    expect(answerIn(signalled)).toMatchObject({ signalled: true })
    const finished = await ended
    expect([finished.code, answerIn(finished)['status']]).toEqual([0, 'completed'])
  })

  test('is not waited for where nothing is begun, and nothing is done', async () => {
    const refused = await call('task_create', 'title=x', '--wait')
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('--wait: task_create starts no run')])
    expect(answerIn(await call('task_list'))).toMatchObject({ tasks: [] })
  })
})

test('what is only over Streamable HTTP is not in the list, and says so', async () => {
  const list = await runCastellanHere(['tools'], { home })
  expect(list.stdout).not.toContain('zaru.switch_mode')
  const one = await runCastellanHere(['tools', 'zaru.switch_mode'], { home })
  expect(one.stdout).toContain('Only over Streamable HTTP.')
})
