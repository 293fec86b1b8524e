import { existsSync, readdirSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { toolsets } from '../../src/tools/runtime/define-tool.ts'
import { domainsWithoutService } from './domain-faces.ts'
import { importsOf, readSources } from './source-files.ts'
import { furtherStores, storesWithoutDomain } from './store-nouns.ts'
import { foldersOf, foldersWithoutDomain } from './toolset-folders.ts'

/** Git keeps no empty folders, but a checkout may leave them behind. */
const foldersIn = (path: string): string[] =>
  readdirSync(path, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && readdirSync(`${path}/${entry.name}`).length > 0)
    .map(({ name }) => name)

const toolFolders = foldersIn('src/tools').filter((name) => name !== 'runtime')
const domains = foldersIn('src/domains')

describe('a noun has one name in every layer', () => {
  it('each folder of tools is that of a domain, or has a reason not to be', () => {
    const others = toolFolders.filter((name) => !domains.includes(name) && !foldersWithoutDomain.has(name))
    expect(others, 'name the folder as its domain, or give the reason in test/repo/toolset-folders.ts').toEqual([])
  })

  it('every exception is needed', () => {
    const names = [...foldersWithoutDomain.keys()]
    expect(names.filter((name) => domains.includes(name) || !toolFolders.includes(name))).toEqual([])
  })

  it('each folder of tools belongs to one toolset', () => {
    expect(toolsets.flatMap(foldersOf).toSorted()).toEqual(toolFolders.toSorted())
  })
})

describe('a store has the noun of what it keeps', () => {
  const stores = readSources(['src/stores/sql']).flatMap((source) => {
    const [, noun] = /\/([a-z-]+)-store\.ts$/.exec(source.path) ?? []
    const ports = importsOf(source).flatMap(
      ({ specifier }) => /\/domains\/([^/]+)\/ports\.ts$/.exec(specifier)?.[1] ?? [],
    )
    return noun === undefined ? [] : [{ noun, domains: [...new Set(ports)] }]
  })
  const singular = (domain: string): string => domain.replace(/ies$/, 'y').replace(/s$/, '')
  const domainOf = (noun: string): string | undefined =>
    furtherStores[noun] ?? domains.find((domain) => domain === noun || singular(domain) === noun)

  it('and implements the port of that domain alone', () => {
    const others = stores.filter(({ noun, domains: found }) => {
      const expected = noun in storesWithoutDomain ? [] : [domainOf(noun)]
      return JSON.stringify(found) !== JSON.stringify(expected)
    })
    expect(others, 'name the store as its domain, or add it to test/repo/store-nouns.ts').toEqual([])
  })

  it('every exception is needed', () => {
    const names = [...Object.keys(furtherStores), ...Object.keys(storesWithoutDomain)]
    expect(names.filter((name) => !stores.some(({ noun }) => noun === name))).toEqual([])
    expect(Object.values(furtherStores).filter((domain) => !domains.includes(domain))).toEqual([])
  })
})

describe('a domain has one shape', () => {
  const hasService = (name: string): boolean => existsSync(`src/domains/${name}/service.ts`)

  it('its service is in service.ts, or it has a reason to have none', () => {
    const others = domains.filter((name) => !hasService(name) && !domainsWithoutService.has(name))
    expect(others, 'name the file service.ts, or give the reason in test/repo/domain-faces.ts').toEqual([])
  })

  it('every exception is needed', () => {
    const names = [...domainsWithoutService.keys()]
    expect(names.filter((name) => !domains.includes(name) || hasService(name))).toEqual([])
  })
})
