import { execFileSync, type SpawnOptions } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { chown } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** An unprivileged user, whose home is a directory of the test. */
export type OrdinaryUser = Readonly<{
  name: string
  uid: number
  gid: number
  home: string
  /** For `spawn`: nothing when it is the user who runs the tests. */
  spawnOptions: Pick<SpawnOptions, 'uid' | 'gid'>
  remove(): void
}>

/** Account files are changed by one process at a time; useradd gives up at once when it meets another. */
const accounts = (program: string, ...args: string[]): void => {
  execFileSync('flock', ['/tmp/castellan-test-accounts.lock', program, ...args], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
}

let userCount = 0

/** Root makes a user of its own for the test; anybody else is one already, and has the ids that the machine gives. */
export async function createOrdinaryUser(options: { subordinateIds: boolean }): Promise<OrdinaryUser> {
  const home = mkdtempSync(join(tmpdir(), 'castellan-user-'))
  const removeHome = (): void => rmSync(home, { recursive: true, force: true })
  if (process.getuid!() !== 0) {
    const [uid, gid] = [process.getuid!(), process.getgid!()]
    return { name: String(uid), uid, gid, home, spawnOptions: {}, remove: removeHome }
  }
  userCount += 1
  const name = `castellan-${process.pid}-${userCount}`
  accounts(
    'useradd',
    '--no-create-home',
    '--home-dir',
    home,
    '--user-group',
    '--key',
    'SUB_UID_COUNT=0',
    '--key',
    'SUB_GID_COUNT=0',
    name,
  )
  const idOf = (flag: string): number => Number(execFileSync('id', [flag, name], { encoding: 'utf8' }))
  const [uid, gid] = [idOf('-u'), idOf('-g')]
  if (options.subordinateIds) {
    // A block that only this user has, far from those that useradd gives out.
    const first = 1_000_000_000 + (uid % 7_000) * 65_536
    const range = `${first}-${first + 65_535}`
    accounts('usermod', '--add-subuids', range, '--add-subgids', range, name)
  }
  await chown(home, uid, gid)
  const remove = (): void => {
    accounts('userdel', '--force', name)
    removeHome()
  }
  return { name, uid, gid, home, spawnOptions: { uid, gid }, remove }
}
