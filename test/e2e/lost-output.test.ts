import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { launcher } from '../support/castellan-client.ts'
import { openCliHome } from '../support/cli-home.ts'
import { homeEnvironment } from '../support/run-castellan.ts'

/** Output that cannot be written: a command must not look as if it had answered. */
const { home, dataDir, onState } = openCliHome()

async function runInto(target: string, args: readonly string[]) {
  const command = `"$0" "$@" ${target}`
  const child = spawn('sh', ['-c', command, launcher, ...args, '--data-dir', dataDir], {
    stdio: ['ignore', 'ignore', 'pipe'],
    cwd: home,
    env: homeEnvironment(home),
  })
  const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'close')])
  return { code: code as number | null, stderr }
}

describe('a disk that is full', () => {
  test.each([
    ['call', 'task_list'],
    ['users', 'list'],
    ['keys', 'list', '--json'],
    ['export', '-'],
  ])('%s %s fails and says so', async (...args) => {
    await onState(['call', 'server_ping'])
    const { code, stderr } = await runInto('>/dev/full', args)
    expect([code, stderr]).toEqual([5, expect.stringMatching(/^error: .*(ENOSPC|disk is full).* \(ERR_DISK_FULL\)\n$/)])
  })

  test('a key whose secret is lost is named, with the command that revokes it', async () => {
    const { code, stderr } = await runInto('>/dev/full', ['keys', 'create', 'lost'])
    const revoke = /The key was made, .*: castellan keys revoke (\S+) \(ERR_DISK_FULL\)\n$/.exec(stderr)
    expect([code, revoke]).toEqual([5, expect.anything()])
    expect((await onState(['keys', 'revoke', revoke![1]!])).stdout).toMatch(/^Revoked lost /)
  })
})

test('a reader that leaves early is no failure', async () => {
  expect(await runInto('| true', ['keys', 'list'])).toEqual({ code: 0, stderr: '' })
})
