import { yamlLibrary } from '../domains/templating/yaml-library.ts'
import { type Config, showConfig } from './config.ts'

/** The configuration in force in the form of a file, without secrets, as in `config show`. */
export function configView(config: Config, path: string | undefined): { path: string; yaml: string } {
  const root: Record<string, unknown> = {}
  for (const { field, value } of showConfig({ config, sources: new Map(), warnings: [] })) {
    if (value === null) continue
    const keys = field.split('.')
    let group = root
    for (const key of keys.slice(0, -1)) {
      group[key] ??= {}
      group = group[key] as Record<string, unknown>
    }
    group[keys.at(-1)!] = value
  }
  return { path: path ?? '', yaml: yamlLibrary().stringify(root, { lineWidth: 0 }) }
}

/**
 * The sections in which the displayed configuration differs from this one. Only sections, and `governance`, are compared: other
 * settings may differ by the flags of each process, and the folders of skills by its working directory.
 */
export function differingSections(yaml: string, config: Config): string[] {
  const [theirs, ours] = [yaml, configView(config, undefined).yaml].map(
    (text) => Object(yamlLibrary().parse(text)) as Readonly<Record<string, unknown>>,
  )
  return [...new Set([...Object.keys(theirs!), ...Object.keys(ours!)])]
    .filter((name) => name !== 'skills')
    .filter((name) => name === 'governance' || [theirs![name], ours![name]].some((value) => typeof value === 'object'))
    .filter((name) => JSON.stringify(theirs![name]) !== JSON.stringify(ours![name]))
}
