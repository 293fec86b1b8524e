import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { makeRunFolder } from './run-folder.ts'

it('removes what dead runs left, and nothing of runs that live or of others', () => {
  const parent = mkdtempSync(join(tmpdir(), 'castellan-runs-'))
  const program = new URL('./run-folder.ts', import.meta.url).href
  const script = `import { makeRunFolder } from '${program}'; console.log(makeRunFolder('${parent}'))`
  const { stdout } = spawnSync(process.execPath, ['--input-type=module-typescript', '-e', script], { encoding: 'utf8' })
  const dead = stdout.trim()
  writeFileSync(join(dead, 'left'), '')
  const others = ['castellan-1', `castellan-${process.ppid}`, 'castellan-x', 'elsewhere']
  for (const name of others) mkdirSync(join(parent, name))
  const own = makeRunFolder(parent)
  expect(existsSync(dead)).toBe(false)
  expect(readdirSync(parent).sort()).toEqual([...others, `castellan-${process.pid}`].sort())
  expect(readdirSync(own)).toEqual(['.pid-namespace'])
})
