import { describe, expect, it } from 'vitest'
import { flag, json, jsonOrNull, rowMap } from '../../src/stores/sql/row-map.ts'

type Row = { tenant: string; id: string; is_open: number; about: string; extra: string | null; made_at: number | null }
type Item = { id: string; isOpen: boolean; about: unknown; extra: readonly string[] | null; madeAtMs: number | null }

const items = rowMap<Row, Item>()({
  id: 'id',
  isOpen: flag('is_open'),
  about: json('about'),
  extra: jsonOrNull('extra'),
  madeAtMs: 'made_at',
})
const item: Item = { id: 'a', isOpen: true, about: null, extra: ['x'], madeAtMs: 5 }
const row: Row = { tenant: 't', id: 'a', is_open: 1, about: 'null', extra: '["x"]', made_at: 5 }

describe('a row map', () => {
  it('names the columns in the order of the fields', () => {
    expect(items.columns).toEqual(['tenant', 'id', 'is_open', 'about', 'extra', 'made_at'])
  })

  it('maps both ways', () => {
    expect(items.toRow('t', item)).toEqual(row)
    expect(items.fromRow(row)).toEqual(item)
  })

  it('stores no value as no value, and false as 0', () => {
    const empty: Item = { ...item, isOpen: false, extra: null, madeAtMs: null }
    const stored = items.toRow('t', empty)
    expect(stored).toMatchObject({ is_open: 0, extra: null, made_at: null })
    expect(items.fromRow(stored)).toEqual(empty)
  })

  it('stores under the tenant of the call, whatever the item says', () => {
    const owned = rowMap<Pick<Row, 'tenant' | 'id'>, { tenant: string; id: string }>()({ tenant: 'tenant', id: 'id' })
    expect(owned.columns).toEqual(['tenant', 'id'])
    expect(owned.toRow('t', { tenant: 'other', id: 'a' })).toEqual({ tenant: 't', id: 'a' })
  })

  it('finds nothing where there is no row', () => {
    expect(items.found(undefined)).toBeUndefined()
    expect(items.found(row)).toEqual(item)
  })

  it('does not compile if a column has no field, or has a field of another type', () => {
    type Small = Pick<Row, 'tenant' | 'id' | 'made_at'>
    // @ts-expect-error: `made_at` is missing.
    rowMap<Small, { id: string }>()({ id: 'id' })
    // @ts-expect-error: a number is no text.
    rowMap<Small, { id: string; madeAtMs: number }>()({ id: 'id', madeAtMs: 'id' })
    rowMap<Small, { id: string; madeAtMs: number }>()({ id: 'id', madeAtMs: 'made_at' })
  })
})
