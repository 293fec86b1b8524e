import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { filesBelow, textOf } from './file-tree.ts'

/**
 * Below the directory given, mounts a disk of 64 KiB, a read-only view of it and a file of procfs, in a mount namespace of
 * its own; tries what must fail there, and prints how it did.
 */
const [root, isInside] = process.argv.slice(2)
if (isInside === undefined) {
  const self = ['--user', '--map-root-user', '--mount', process.execPath, import.meta.filename, root!, 'inside']
  writeSync(1, execFileSync('unshare', self))
} else {
  await tryInside(root!)
}

async function tryInside(root: string): Promise<void> {
  const mount = (...args: string[]): void => void execFileSync('mount', args)
  const inRoot = (path: string): string => join(root, path)
  for (const path of ['holder/disk', 'view']) mkdirSync(inRoot(path), { recursive: true })
  writeFileSync(inRoot('bound'), '')
  mount('-t', 'tmpfs', '-o', 'size=64k', 'small', inRoot('holder/disk'))
  mount('--bind', inRoot('holder/disk'), inRoot('view'))
  mount('-o', 'remount,bind,ro', inRoot('view'))
  mount('--bind', '/proc/self/status', inRoot('bound'))

  const files = filesBelow(root, { owner: { uid: 0, gid: 0 } })
  const codeOf = (work: Promise<unknown>): Promise<string> =>
    work.then(
      () => 'done',
      (error) => error.code,
    )
  await files.write('/holder/disk/kept', Buffer.from('old'))
  await files.write('/movable', Buffer.from('x'))
  const big = Buffer.alloc(100_000, 'x')
  const outcome = {
    full: await codeOf(files.write('/holder/disk/kept', big)),
    fullStream: await codeOf(files.write('/holder/disk/new', Readable.from([big, big]))),
    retained: await textOf(await files.read('/holder/disk/kept')),
    namesAfterFull: readdirSync(inRoot('holder/disk')),
    readOnly: await codeOf(files.write('/view/kept', Buffer.from('new'))),
    removeMount: await codeOf(files.remove('/view')),
    removeHolder: await codeOf(files.remove('/holder', { recursive: true })),
    moveAcross: await codeOf(files.rename('/movable', '/holder/disk/movable')),
    bindOfProc: await codeOf(files.read('/bound')),
    stillMounted: readFileSync(inRoot('holder/disk/kept'), 'utf8'),
  }
  writeSync(1, JSON.stringify(outcome))
}
