import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { mountFindings } from './doctor-mounts.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'castellan-mounts-'))
  chmodSync(folder, 0o755)
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

function make(name: string, mode: number): string {
  const path = join(folder, name)
  mkdirSync(path)
  chmodSync(path, mode)
  return path
}
const told = (mode: 'ro' | 'rw', path: string): string[] => mountFindings([{ mode, path }]).map(({ detail }) => detail)

it('says nothing of folders that workspaces can see', () => {
  expect(told('ro', make('open', 0o755))).toEqual([])
  expect(told('rw', make('closed', 0o750))).toEqual([])
  chmodSync(folder, 0o750)
  expect(told('rw', make('below-closed', 0o755))).toEqual([])
})

it('says why a folder is not shown, or not for writing', () => {
  const open = make('open', 0o755)
  expect(told('rw', open)).toEqual([
    `${open} is not shown for writing, because other users of this machine may enter it; run chmod o-x on it`,
  ])
  const file = join(folder, 'file')
  writeFileSync(file, '')
  expect(told('ro', file)).toEqual([`${file} is not shown, because it is not a folder`])
  const missing = join(folder, 'missing')
  expect(told('ro', missing)).toEqual([`${missing} is not shown, because it cannot be looked at (ENOENT)`])
})
