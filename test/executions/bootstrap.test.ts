import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openTestApp, type TestApp } from '../support/app.ts'
import { call, openToolLoop, worker } from '../support/tool-loop.ts'

let app: TestApp
beforeAll(async () => {
  app = await openTestApp({ config: { 'rate_limits.enabled': false } })
})
afterAll(() => app[Symbol.asyncDispose]())

const open = (request: Parameters<typeof openToolLoop>[1]) => openToolLoop(app, request)

describe('an agent that has a program which judges its work', () => {
  const checked = (more: string): string =>
    worker(`  advanced:
    bootstrap_path: /workspace/check
    startup_script: |
      printf '#!/bin/sh\\ngrep -qx good && echo passed\\n' > /workspace/check
      chmod +x /workspace/check
  execution: { mode: one-shot, validation: [{ type: exit_code, expected: 0 }] }
${more}`)
  const onlyEcho =
    '  builtin_dispatchers: [{ name: cmd, capabilities: [{ name: cmd.run, subcommand_allowlist: [echo] }] }]\n'
  const told = (model: { requests: readonly { messages: readonly { role: string; content?: unknown }[] }[] }) =>
    model.requests
      .flatMap(({ messages }) => messages.filter(({ role }) => role === 'tool'))
      .map(({ content }) => JSON.stringify(content))

  test.each([
    [
      'a redirection, though only echo is allowed',
      onlyEcho,
      call('cmd_run', { command: 'echo "exit 0" > /workspace/check' }),
    ],
    ['a redirection from its folder', onlyEcho, call('cmd_run', { command: 'echo "exit 0" >>check' })],
    ['a redirection without a list of commands', '', call('cmd_run', { command: 'echo "exit 0" > check' })],
    ['fs.write', '', call('fs_write', { path: 'check', content: 'exit 0' })],
  ])('cannot write it by %s', async (_, more, line) => {
    const { loop, model } = await open({ agents: { worker: checked(more) }, script: [line, { text: 'bad' }] })
    expect(await loop.finish('worker')).toMatchObject({ status: 'failed' })
    expect(told(model)[0]).toContain('the program there judges this work')
  })

  test('is not judged by one that it changed by a command', async () => {
    const line = call('cmd_run', { command: 'printf "#!/bin/sh\\necho passed\\n" > x && chmod +x x && mv x check' })
    const { loop } = await open({ agents: { worker: checked('') }, script: [line, { text: 'bad' }] })
    const run = await loop.finish('worker')
    expect(run.error!.message).toContain('the program changed while the agent worked')
  })

  test('finds what it changed put aside where the workspace is kept', async () => {
    const retained = { keepWorkspace: true }
    const line = call('cmd_run', { command: 'cp /bin/true check' })
    const { loop } = await open({ agents: { worker: checked('') }, script: [line, { text: 'bad' }] })
    const run = await loop.finish('worker', retained)
    const { workspace_id } = run.output as { workspace_id: string }
    const { entries } = await app.ask<{ entries: { name: string }[] }>('file_list', {
      workspace_id,
      path: '/workspace',
    })
    expect(entries.map(({ name }) => name)).toEqual([`check.changed-in-${run.id}`])
    await app.ask('workspace_destroy', { workspace_id })
  })

  test('is judged by it when it left it alone, and other files are its own', async () => {
    const line = call('cmd_run', { command: 'echo fine 2>/dev/null > note.txt' })
    const { loop, model } = await open({ agents: { worker: checked(onlyEcho) }, script: [line, { text: 'good' }] })
    expect(await loop.finish('worker')).toMatchObject({ status: 'completed', text: 'passed\n' })
    expect(told(model)[0]).toContain('exit_code')
  })

  test('does not begin without it', async () => {
    const missing = worker('  advanced: { bootstrap_path: /workspace/none }\n')
    const { loop, model } = await open({ agents: { worker: missing }, script: [{ text: 'x' }] })
    const run = await loop.finish('worker')
    expect(run.error!.message).toContain('there is no such file when the agent starts')
    expect(model.requests).toEqual([])
  })
})
