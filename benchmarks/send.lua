-- Makes the requests that wrk sends: a new body each time, of texts that end in a running number.
-- Arguments: file of texts, texts in a request, first number, "predict" or "attention",
-- connections.

local ffi = require("ffi")
ffi.cdef("typedef struct { long seconds; long nanoseconds; } headlight_time;"
  .. " int clock_gettime(int clock, headlight_time *now);")

local MONOTONIC = 1
local threads = {}
local texts, count, number, path, kind = {}, 1, 0, "/predict", "predict"
local headers = { ["Content-Type"] = "application/json" }
local time = ffi.new("headlight_time")

-- Read by `done`. wrk calls `request` once before it begins and once for each connection. After
-- that, each call means that another request was answered.
asked, full_at = 0, 0
full, latest = 0.0, 0.0

local function now()
  ffi.C.clock_gettime(MONOTONIC, time)
  return tonumber(time.seconds) + tonumber(time.nanoseconds) / 1e9
end

function setup(thread)
  threads[#threads + 1] = thread
end

function init(arguments)
  for line in io.lines(arguments[1]) do
    texts[#texts + 1] = line
  end
  count, number, kind = tonumber(arguments[2]), tonumber(arguments[3]), arguments[4]
  path = "/" .. kind
  full_at = 1 + 2 * tonumber(arguments[5])
end

local function numbered()
  number = number + 1
  return texts[number % #texts + 1] .. " " .. string.format("%d", number) .. '"'
end

function request()
  asked = asked + 1
  if asked >= full_at then
    latest = now()
    if asked == full_at then
      full = latest
    end
  end
  local body
  if kind == "attention" then
    body = '{"sentence":' .. numbered() .. "}"
  else
    local parts = {}
    for place = 1, count do
      parts[place] = numbered()
    end
    body = '{"sentences":[' .. table.concat(parts, ",") .. "]}"
  end
  return wrk.format("POST", path, headers, body)
end

function done(summary, latency)
  local errors, thread = summary.errors, threads[1]
  io.write(string.format(
    '\n{"requests": %d, "counted": %d, "seconds": %.6f, "p50": %.6f, "p99": %.6f, "failed": %d}\n',
    summary.requests, math.max(0, thread:get("asked") - thread:get("full_at")),
    thread:get("latest") - thread:get("full"),
    latency:percentile(50) / 1e6, latency:percentile(99) / 1e6,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
