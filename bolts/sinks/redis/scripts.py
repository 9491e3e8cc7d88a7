"""The scripts that Redis runs: each looks at what is there and writes, with no other command in between. Must not know
Python's records."""

from typing import Final

DATA, KEY, RECORD = "data", "kedge-key", "kedge-record"  # fields of an entry

# KEYS: the stream, and a key for each output. ARGV: milliseconds, most entries, and three values for each output.
# XADD comes first: if it fails, the output is not known.
STREAM: Final = f"""
local said = {{}}
for at = 2, #KEYS do
  local from = 3 * at - 3
  if redis.call('EXISTS', KEYS[at]) == 1 then
    said[at - 1] = 0
  else
    local added
    if ARGV[2] == '0' then
      added = redis.pcall('XADD', KEYS[1], '*', '{DATA}', ARGV[from], '{KEY}', ARGV[from + 1],
        '{RECORD}', ARGV[from + 2])
    else
      added = redis.pcall('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', '{DATA}', ARGV[from], '{KEY}', ARGV[from + 1],
        '{RECORD}', ARGV[from + 2])
    end
    if type(added) == 'table' and added.err then
      said[at - 1] = added.err
    else
      redis.call('SET', KEYS[at], '1', 'PX', ARGV[1])
      said[at - 1] = 1
    end
  end
end
return said
"""

# KEYS: a hash for each row. ARGV: the field of the revision, 'int' or 'time', and for each row the revision, how many
# values it has, names and values, how many fields have none, and their names. Says 1: stored; 0: known or older;
# 2: another content of the same revision. Revisions are texts: a number of Lua's has 53 bits.
HASH: Final = """
local whole = ARGV[2] == 'int'
local function fits(text)
  if whole then return string.find(text, '^%-?[1-9]%d*$') or text == '0' end
  return #text == 27 and string.find(text, '^%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d%d%d%d%d%dZ$')
end
local function higher(one, other)
  if one == other then return false end
  if not whole then return one > other end
  local below, other_below = string.sub(one, 1, 1) == '-', string.sub(other, 1, 1) == '-'
  if below ~= other_below then return other_below end
  if #one ~= #other then return (#one > #other) ~= below end
  return (one > other) ~= below
end
local function same(key, from, values, without, absent)
  for at = from, from + 2 * values - 1, 2 do
    if redis.call('HGET', key, ARGV[at]) ~= ARGV[at + 1] then return false end
  end
  for at = without, without + absent - 1 do
    if redis.call('HEXISTS', key, ARGV[at]) == 1 then return false end
  end
  return true
end
local said, at = {}, 3
for row = 1, #KEYS do
  local key, revision, values = KEYS[row], ARGV[at], tonumber(ARGV[at + 1])
  local from = at + 2
  local absent = tonumber(ARGV[from + 2 * values])
  local without = from + 2 * values + 1
  at = without + absent
  local held = redis.pcall('HGET', key, ARGV[1])
  if type(held) == 'table' then
    said[row] = held.err
  elseif held and not fits(held) then
    said[row] = 'REVISION ' .. held
  elseif held and held == revision then
    if same(key, from, values, without, absent) then said[row] = 0 else said[row] = 2 end
  elseif held and not higher(revision, held) then
    said[row] = 0
  else
    redis.call('HSET', key, unpack(ARGV, from, from + 2 * values - 1))
    if absent > 0 then redis.call('HDEL', key, unpack(ARGV, without, without + absent - 1)) end
    said[row] = 1
  end
end
return said
"""
