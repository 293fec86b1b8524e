import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openTestApp, type TestApp } from '../support/app.ts'
import type { Line } from '../support/scripted-model.ts'
import { call, judge, openToolLoop, type Script, worker } from '../support/tool-loop.ts'

let app: TestApp
beforeAll(async () => {
  app = await openTestApp({ config: { 'rate_limits.enabled': false } })
})
afterAll(() => app[Symbol.asyncDispose]())

const open = (request: Parameters<typeof openToolLoop>[1]) => openToolLoop(app, request)

describe('judging of tool calls', () => {
  const rule =
    '  execution:\n    tool_validation:\n      - { type: semantic, judge_agent: judge, criteria: "Only a.txt.", min_score: 0.8 }\n'
  const script =
    (answer: (text: string) => Line, ...lines: Line[]): Exclude<Script, readonly Line[]> =>
    (request) => {
      if (request.text.includes('Judge.')) return answer(request.text)
      const answered = request.messages.filter(({ role }) => role === 'tool').length
      return lines[Math.min(answered, lines.length - 1)]!
    }
  const verdict = (score: number): Line => ({
    text: JSON.stringify({ score, confidence: 1, reasoning: `it is ${score}` }),
  })

  test('stops a call before it happens, and tells the model why', async () => {
    const { loop, model } = await open({
      agents: { worker: worker(rule), judge },
      script: script(
        (text) =>
          verdict(
            text.includes('b.txt') && !text.includes('"tool_name":"fs.write","arguments_summary":{"path":"b.txt"')
              ? 0.1
              : 1,
          ),
        call('fs_write', { path: 'b.txt', content: 'x' }),
        call('fs_write', { path: 'a.txt', content: 'y' }),
        call('fs_read', { path: 'a.txt' }),
        { text: 'done' },
      ),
    })
    const run = await loop.finish('worker', { keepWorkspace: true })
    expect(run.status).toBe('completed')
    const workspace_id = (run.output as { workspace_id: string }).workspace_id
    const { entries } = await app.ask<{ entries: { name: string }[] }>('file_list', {
      workspace_id,
      path: '/workspace',
    })
    expect(entries.map(({ name }) => name)).toEqual(['a.txt'])
    const told = model.requests.map(({ text }) => text).join()
    expect(told).toContain("the judge 'judge' rejected the call")
    const asked = model.requests.filter(({ text }) => text.includes('Judge.'))
    // fs.read is not judged.
    expect(asked).toHaveLength(2)
    for (const part of ['proposed_tool_call', 'Only a.txt.', 'semantic_judge_pre_execution_inner_loop']) {
      expect(asked[0]!.text).toContain(part)
    }
    const verdicts = (await loop.engine.journal(run.id))
      .filter(({ type }) => /^tool_invocation_(?:started|failed)$/.test(type))
      .map(({ payload }) => (payload as { verdict: object }).verdict)
    expect(verdicts).toEqual([
      { by: 'judges', allowed: false, judges: [{ judge: 'judge', score: 0.1, confidence: 1 }] },
      { by: 'judges', allowed: true, judges: [{ judge: 'judge', score: 1, confidence: 1 }] },
      { by: 'built-in', allowed: true },
    ])
    await app.ask('workspace_destroy', { workspace_id })
  })

  test('shows the judge the whole request, input included', async () => {
    const { loop, model } = await open({
      agents: { worker: worker(rule), judge },
      script: script(() => verdict(1), call('fs_write', { path: 'a.txt', content: 'y' }), { text: 'done' }),
    })
    const input = { prompt: 'Write only what the harbour master asked for.' }
    expect(await loop.finish('worker', { input })).toMatchObject({ status: 'completed' })
    const asked = model.requests.find(({ text }) => text.includes('Judge.'))!
    expect(asked.text).toContain('Write only what the harbour master asked for.')
  })

  test('is closed: without a verdict there is no call', async () => {
    const { loop } = await open({
      agents: { worker: worker(rule), judge },
      script: script(() => ({ text: 'I would say yes' }), call('fs_write', { path: 'a.txt', content: 'x' }), {
        text: 'ok',
      }),
    })
    const before = (await app.log()).filter(({ tool }) => tool === 'fs.write').length
    expect((await loop.finish('worker')).status).toBe('completed')
    expect((await app.log()).filter(({ tool }) => tool === 'fs.write')).toHaveLength(before)
  })

  test('is skipped or demanded as the operator says', async () => {
    const lines = [
      call('fs_write', { path: 'a.txt', content: 'x' }),
      call('fs_read', { path: 'a.txt' }),
      { text: 'ok' },
    ]
    const asked = async (judging: { skip: string[]; always: string[] }) => {
      const { loop, model } = await open({
        agents: { worker: worker(rule), judge },
        script: script(() => verdict(1), ...lines),
        deps: { judging },
      })
      await loop.finish('worker')
      return model.requests.filter(({ text }) => text.includes('Judge.')).length
    }
    expect(await asked({ skip: ['fs.write'], always: [] })).toBe(0)
    expect(await asked({ skip: [], always: ['fs.read'] })).toBe(2)
  })

  test('a judge may look at the files of whom it judges, and change nothing', async () => {
    let step = 0
    const prepared = worker(`${rule}  advanced: { startup_script: "echo precious > /workspace/there.txt" }\n`)
    const { loop, model } = await open({
      agents: { worker: prepared, judge },
      script(request) {
        if (!request.text.includes('Judge.')) {
          const answered = request.messages.filter(({ role }) => role === 'tool').length
          return [call('cmd_run', { command: 'touch', args: ['seen'] }), { text: 'done' }][answered]!
        }
        return [
          call('fs_write', { path: 'mine.txt', content: 'x' }),
          call('fs_read', { path: 'there.txt' }),
          verdict(1),
        ][step++]!
      },
    })
    const run = await loop.finish('worker')
    expect(run.status).toBe('completed')
    const judged = model.requests.filter(({ text }) => text.includes('Judge.')).at(-1)!.text
    expect(judged).toContain('Do not try it again')
    expect(judged).toContain('precious')
  })
})
