import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openSharedPipes } from './shared-pipes.ts'

/** The server opens, with its own rights, the pipes that the supervisor names. */
describe('the pipes of a command', () => {
  let state: string
  let fifos: string
  beforeEach(() => {
    state = mkdtempSync(join(tmpdir(), 'castellan-pipes-'))
    fifos = join(state, 'run/fifos')
    mkdirSync(fifos, { recursive: true })
  })
  afterEach(() => rmSync(state, { recursive: true }))

  const openCount = (): number => readdirSync('/proc/self/fd').length

  it('are opened by their names, and closed at the end', async () => {
    execFileSync('mkfifo', [join(fifos, '1')])
    // One pipe for both, so that input comes back as output.
    const { stdin, stdout, end } = openSharedPipes(state, { stdin: '1', stdout: '1' })
    const read = text(stdout)
    stdin.end('there and back')
    expect(await read).toBe('there and back')
    await end()
    expect([stdin.destroyed, stdout.destroyed]).toEqual([true, true])
  })

  it('are nothing but pipes, in their own folder, and reached by no link', () => {
    writeFileSync(join(state, 'secret'), 'secret')
    execFileSync('mkfifo', [join(fifos, '1'), join(state, 'elsewhere')])
    writeFileSync(join(fifos, '2'), '')
    symlinkSync(join(state, 'elsewhere'), join(fifos, '3'))
    const before = openCount()
    for (const name of ['2', '3', '4', '../1', '../../secret', '', '1/.']) {
      expect(() => openSharedPipes(state, { stdin: '1', stdout: name }), name).toThrow()
      expect(() => openSharedPipes(state, { stdin: name, stdout: '1' }), name).toThrow()
    }
    rmSync(fifos, { recursive: true })
    mkdirSync(join(state, 'other'))
    execFileSync('mkfifo', [join(state, 'other/1')])
    symlinkSync(join(state, 'other'), fifos)
    expect(() => openSharedPipes(state, { stdin: '1', stdout: '1' })).toThrow(/ELOOP|ENOTDIR/)
    expect(openCount()).toBe(before)
  })
})
