import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { endSupervisor } from '../support/end-supervisor.ts'
import { type OpenedBackend, openNamespacesBackend } from '../support/namespaces-backend.ts'

/** This needs root. Root starts the supervisor, which is nobody: an attacker who takes it over must not make root write anywhere. */
describe('a supervisor in the wrong hands', () => {
  let opened: OpenedBackend
  let folder = ''
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'castellan-victim-'))
    opened = await openNamespacesBackend({ storeGb: 0 })
    await opened.backend.inventory()
  })
  afterEach(async () => {
    await opened.close()
    rmSync(folder, { recursive: true })
  })

  /** With all that the supervisor itself may do. */
  const asSupervisor = (script: string): string => {
    const enter = ['-t', String(opened.supervisorPid()), '-U', '-m', '-p', '-S', '0', '-G', '0']
    const { stdout } = spawnSync('nsenter', [...enter, 'sh', '-c', `cd /mnt/state; ${script}`], { encoding: 'utf8' })
    return stdout.trim()
  }

  it('makes, removes and replaces nothing beside the folders that it was given', () => {
    const log = join(opened.state, 'supervisor.log')
    const before = [readFileSync(join(opened.state, 'supervisor.pid'), 'utf8'), statSync(log).ino]
    expect(asSupervisor('cd sockets && ls')).toContain('supervisor.sock')
    const tries = [
      'mkdir new',
      ': > supervisor.pid',
      'rm -f supervisor.pid',
      'ln -s /etc/passwd slirp.log.new',
      'mv supervisor.log away',
      'mv store away',
      'chmod 777 .',
      'chown 0:0 .',
    ]
    expect(tries.filter((one) => asSupervisor(`${one} 2>/dev/null && echo done`) !== '')).toEqual([])
    expect([readFileSync(join(opened.state, 'supervisor.pid'), 'utf8'), statSync(log).ino]).toEqual(before)
  })

  it('leads no write, no removal and no change of owner astray', async () => {
    const victim = join(folder, 'victim')
    writeFileSync(victim, 'untouched')
    const names =
      'supervisor.pid supervisor.pid.new supervisor.lock supervisor.log slirp.log slirp.ended alive store.btrfs.new'
    asSupervisor(`
      for name in ${names} sockets/slirp.sock sockets/supervisor.sock slirp.sock supervisor.sock; do
        rm -f $name; ln -s ${victim} $name
      done
      mv store elsewhere && ln -s ${folder} store
      mv sockets elsewhere-too && ln -s ${folder} sockets
      mv run elsewhere-as-well && ln -s ${folder} run`)
    await endSupervisor(dirname(opened.state))
    await opened.restart()
    expect(readFileSync(victim, 'utf8')).toBe('untouched')
    expect([statSync(victim).uid, statSync(folder).uid]).toEqual([0, 0])
    expect((await opened.reopen().inventory()).running).toEqual([])
  })

  it('finds the folder closed when an earlier version had left it open, and its links gone', async () => {
    const victim = join(folder, 'victim')
    writeFileSync(victim, 'untouched')
    await endSupervisor(dirname(opened.state))
    const names = ['supervisor.lock', 'slirp.log', 'supervisor.pid.new', 'run']
    for (const name of names) {
      rmSync(join(opened.state, name), { recursive: true, force: true })
      symlinkSync(name === 'run' ? folder : victim, join(opened.state, name))
    }
    execFileSync('chown', [
      '-h',
      '1500000000:1500000000',
      opened.state,
      ...names.map((name) => join(opened.state, name)),
    ])
    await opened.restart()
    expect(asSupervisor('mkdir new 2>/dev/null && echo done')).toBe('')
    expect(readFileSync(victim, 'utf8')).toBe('untouched')
    expect([statSync(victim).uid, statSync(folder).uid]).toEqual([0, 0])
  })
})
