"""Many sentences at once: their verdicts in a table that sorts, filters, opens and saves."""

import json
import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Request, Route, expect

from tests.browser.routes import problem_of
from tests.browser.table_of_many import MadeUp, Many, Prediction, prediction_of, records_of
from tests.browser.visits import Visit


@pytest.fixture
def many(visit: Visit) -> Many:
    return Many(visit)


def by_number(text: str) -> Prediction:
    """Positive with the share that the number in a text says, in thousandths."""
    number, *_ = re.findall(r"\d+", text) or ["0"]  # a trial may leave it out
    share = int(number) % 1000 / 1000
    return prediction_of({"negative": 1 - share, "positive": share})


def test_ten_thousand_rows_are_asked_in_batches_and_shown_by_the_page(many: Many) -> None:
    lines = ["text,id\r\n", *(f'"Row {at}, it says",{at}\r\n' for at in range(10_000))]
    texts = [f"Row {at}, it says" for at in range(10_000)]
    served = MadeUp(by_number)
    served.stand_in(many.visit)
    many.visit.page.evaluate(
        """() => {
          window.most = 0;
          window.said = [];
          new MutationObserver(() => {
            window.most = Math.max(window.most, document.querySelectorAll('#rows tbody tr').length);
          }).observe(document.body, { childList: true, subtree: true });
          const status = document.getElementById('status');
          new MutationObserver(() => window.said.push(status.textContent))
            .observe(status, { childList: true, characterData: true, subtree: true });
        }"""
    )
    many.choose("rows.csv", "".join(lines))
    assert many.note() == "10,000 rows."
    many.score("Done: 10,000 of 10,000 rows scored.")

    # Few at first, so that something is soon there.
    assert [len(sentences) for sentences in served.asked] == [32, 64, 128, *[256] * 38, 48]
    assert [text for sentences in served.asked for text in sentences] == texts
    # Of a thousand shares, 0 to 0.999, those up to 0.5 are negative; on a tie the first class wins.
    assert many.counts() == {
        "negative": "5,010 (50.1 %)",
        "neutral": "0 (0.0 %)",
        "positive": "4,990 (49.9 %)",
    }
    assert many.part(".stack").get_attribute("aria-label") == (
        "negative 5,010 (50.1 %), positive 4,990 (49.9 %)"
    )
    many.button("Next").click()
    assert many.part("#range").inner_text() == "Rows 101 to 200 of 10,000"
    assert many.column(0) == [str(at) for at in range(101, 201)]
    many.visit.page.get_by_label("Page", exact=False).fill("100")
    many.visit.page.keyboard.press("Enter")
    assert many.part("#range").inner_text() == "Rows 9,901 to 10,000 of 10,000"

    most, said = many.visit.page.evaluate("[most, said]")
    assert most == 100
    assert said == [
        "10,000 rows.",
        "Scoring 10,000 rows.",
        "2,528 of 10,000 rows scored.",
        "5,088 of 10,000 rows scored.",
        "7,648 of 10,000 rows scored.",
        "Done: 10,000 of 10,000 rows scored.",
    ]


def test_a_file_goes_to_the_service_and_its_rows_are_those_of_it(
    many: Many, client: httpx.Client, tmp_path: Path
) -> None:
    words = ["good", "bad", "superb", "dull", "fine"]
    texts = [f"A {words[at % 5]} film, the {at}th that I saw." for at in range(300)]
    lines = [json.dumps({"id": at, "review": text}) for at, text in enumerate(texts)]
    asked: list[str] = []

    def note(request: Request) -> None:
        if request.method == "POST":
            asked.append(request.url)

    many.visit.page.on("request", note)
    many.choose("reviews.jsonl", "\n".join(lines))
    many.score()
    assert asked == [f"{many.visit.url}/predict"] * 4
    halves = [texts[:150], texts[150:]]
    predictions = [
        prediction
        for half in halves
        for prediction in client.post("/predict", json={"sentences": half}).json()["predictions"]
    ]
    saved = many.save(tmp_path)
    assert saved.name == "reviews.scored.csv"
    records = records_of(saved)
    assert list(records[0]) == [
        *("id", "review", "label", "score"),
        *("probability_negative", "probability_neutral", "probability_positive"),
        *("token_count", "truncated", "warnings", "model_version", "error"),
    ]
    assert [record["review"] for record in records] == texts
    assert [record["id"] for record in records] == [str(at) for at in range(300)]
    for record, prediction in zip(records, predictions, strict=True):
        assert record["label"] == prediction["label"]
        assert float(record["score"]) == pytest.approx(prediction["score"], abs=1e-5)
        for label, share in prediction["probabilities"].items():
            assert float(record[f"probability_{label}"]) == pytest.approx(share, abs=1e-5)
        assert int(record["token_count"]) == prediction["token_count"]
        assert record["truncated"] == "false"
    assert {record["model_version"] for record in records} == {
        client.get("/model").json()["version"]
    }


def test_the_table_sorts_and_filters(many: Many) -> None:
    MadeUp(by_number).stand_in(many.visit)
    numbers = [*((7 * at) % 1000 for at in range(150)), 1]
    many.paste(*(f"Film {number}" for number in numbers[:-1]), "\u200b 1")
    many.score()
    scores = [max(number, 1000 - number) for number in numbers]
    rows = list(range(150))

    def press(name: str) -> str | None:
        many.part("th").get_by_role("button", name=name).click()
        heads = many.part("th[aria-sort]")
        expect(heads).to_have_count(1)
        assert heads.inner_text().startswith(name)
        return heads.get_attribute("aria-sort")

    def shown() -> list[int]:
        return [int(number) - 1 for number in many.column(0)]

    filters = many.part("#filters")
    filters.locator("[name=text]").fill("film")
    assert many.part("th[aria-sort=ascending]").inner_text().startswith("Row")
    for name, key in (
        ("Score", lambda row: scores[row]),
        ("Label", lambda row: numbers[row] > 500),
        ("Text", numbers.__getitem__),
    ):
        assert press(name) == "ascending"
        assert shown() == sorted(rows, key=lambda row: (key(row), row))[:100]
        assert press(name) == "descending"
        # Rows that are equal keep their order.
        assert shown() == sorted(rows, key=key, reverse=True)[:100]
    press("Row")
    assert press("Row") == "descending"
    assert shown() == rows[:49:-1]
    press("Row")
    filters.locator("[name=text]").fill("")

    def fits(found: list[int]) -> None:
        assert shown() == found[:100]
        assert many.part("#range").inner_text().endswith(f" of {len(found)}")

    every = range(len(numbers))
    filters.get_by_label("Label").select_option("positive")
    fits([at for at in every if numbers[at] > 500])
    filters.get_by_label("Label").select_option("all")
    filters.locator("[name=text]").fill("FILM 9")
    fits([at for at in every if f"{numbers[at]}"[0] == "9"])
    filters.locator("[name=text]").fill("nothing")
    assert many.part("#range").inner_text() == "No rows"
    assert many.rows() == []
    # Counts are those of all rows.
    assert many.counts()["positive"].startswith(f"{sum(number > 500 for number in numbers)} (")


def test_bad_rows_are_counted_named_and_saved(
    many: Many, client: httpx.Client, tmp_path: Path
) -> None:
    content = (
        'text,label\n"A fine film.",positive\nToo,many,cells\n"  ",negative\n'
        '"Two\nlines",positive\n"Closed" early,x\n\u200b,negative\n"Never closed,positive\nLost,x\n'
    )
    many.choose("mixed.csv", content)
    assert many.note() == (
        "7 rows, 4 of them unreadable. Row 2 (line 3): The row has 3 cells, the first one has 2. "
        "Row 3 (line 4): The text is blank. Row 5 (line 7): Text follows a closing quote. "
        "And 1 more."
    )
    many.score("Done: 2 of 7 rows scored, 5 unreadable.")
    bad = {
        "2": "The row has 3 cells, the first one has 2.",
        "3": "The text is blank.",
        "5": "Text follows a closing quote.",
        "6": client.post("/predict", json={"sentences": ["\u200b"]}).json()["errors"][0]["msg"],
        "7": "A quote is opened and never closed: the rest of the file cannot be read.",
    }
    assert many.counts()["unreadable rows"] == "5"
    many.part("#filters").get_by_label("Label").select_option("unreadable rows")
    assert {row[0]: row[2].removeprefix("unreadable: ") for row in many.rows()} == bad
    records = records_of(many.save(tmp_path))
    found = {str(at): each["error"] for at, each in enumerate(records, 1) if each["error"]}
    assert found == bad
    assert [(record["text"], record["input_label"]) for record in records if record["label"]] == [
        ("A fine film.", "positive"),
        ("Two\nlines", "positive"),
    ]
    assert (records[1]["text"], records[1]["input_label"]) == ("Too", "many,cells")


RATED = (
    "id,stars,title,review\n"
    "7,1,-5,Film 100\n"  # negative, and so it is
    "8,5,=x,Film 950\n"  # positive, and so it is
    "9,2,c,Film 900\n"  # disagrees, by 80 points
    "10,4,d,Film 450\n"  # disagrees, by 10
    "11,3,e,Film 999\n"  # the middle is neutral: disagrees, by 100
)


@pytest.fixture
def rated(many: Many) -> Many:
    MadeUp(by_number).stand_in(many.visit)
    many.choose("rated.csv", RATED.replace(",", ";"))
    expect(many.part("#many-guess")).to_have_text("Texts: review. Stars: stars.")
    expect(many.part("#many-preview thead")).to_contain_text("stars (compared)titlereview (text)")
    many.score("Done: 5 of 5 rows scored.")
    return many


def test_ratings_are_compared_and_counts_lead_to_their_rows(rated: Many, tmp_path: Path) -> None:
    page = rated.visit.page
    box = rated.part("#agreement")
    assert box.locator("p").inner_text() == (
        "The verdict agrees with “stars” in 2 of 5 (40.0 %). It is read as a scale: 1 to 2 as "
        "negative, 3 as neutral, 4 to 5 as positive."
    )
    assert box.locator("td").all_inner_texts() == [*"101", *"001", *"101"]
    heads = rated.part("#rows th")
    assert heads.all_inner_texts() == ["Row", "Text", "Label", "Score", "Marks", "stars"]
    # Where the verdict disagrees comes first.
    assert rated.column(0) == ["5", "3", "4", "1", "2"]
    page.locator("#filters [name=agrees]").select_option("disagrees")
    assert rated.column(0) == ["5", "3", "4"]
    page.locator("#filters [name=agrees]").select_option("agrees")
    assert sorted(rated.column(0)) == ["1", "2"]
    page.locator("#filters [name=agrees]").select_option("all")
    page.get_by_label("All columns").check()
    assert heads.all_inner_texts()[5:] == ["id", "stars", "title"]
    rated.part("th").get_by_role("button", name="Row").click()
    assert rated.part("#rows .extra").all_inner_texts()[3:6] == ["7", "1", "-5"]
    records = records_of(rated.save(tmp_path), ";")  # as the cells of the file are divided
    assert list(records[0])[:5] == ["id", "stars", "title", "review", "label"]
    assert [each["title"] for each in records] == ["-5", "'=x", "c", "d", "e"]
    expect(rated.part("#many-preview")).to_be_hidden()
    all_of_them = rated.button("Show all")
    expect(all_of_them).to_be_hidden()
    rated.part("#counts").get_by_role("button", name="positive").click()
    assert rated.column(0) == ["2", "3", "5"]
    # Neutral in the file, positive by the verdict; then negative in the file.
    rated.part("#agreement td button").nth(5).click()
    assert rated.column(0) == ["5"]
    rated.part("#agreement td button").nth(2).click()
    assert rated.part("#range").inner_text() == "Rows 1 to 1 of 1"
    with rated.visit.page.expect_download() as waiting:
        rated.button("Download these").click()
    assert waiting.value.suggested_filename == "rated.some.scored.csv"
    header, row, end = waiting.value.path().read_bytes().decode("utf-8-sig").split("\r\n")
    assert header.startswith("id;stars;title;review;label;score;probability_negative;")
    assert row.startswith("9;2;c;Film 900;positive;0.9;")
    assert end == ""
    all_of_them.click()
    assert rated.column(0) == ["1", "2", "3", "4", "5"]
    expect(all_of_them).to_be_hidden()


def test_another_choice_never_stands_above_old_rows(rated: Many) -> None:
    # What is compared needs no new verdicts.
    compared = rated.change().get_by_label("Compare with")
    compared.select_option("title")
    assert rated.part("#agreement").inner_text() == (
        "Nothing is compared: “title” holds neither negative, neutral, positive nor numbers of a "
        "scale."
    )
    compared.select_option("nothing")
    expect(rated.part("#agreement")).to_be_hidden()
    expect(rated.visit.page.locator("#filters [name=agrees]")).to_be_hidden()
    assert rated.part("#rows .extra").count() == 0
    for change in (
        lambda: rated.visit.page.get_by_label("Texts are in").select_option("title"),
        lambda: rated.change().get_by_label("Cells are divided by").select_option("comma"),
        lambda: rated.button("Remove the file").click(),
    ):
        expect(rated.part("#scored")).to_be_visible()
        change()
        assert rated.asked.pop() == "confirm"
        expect(rated.part("#scored")).to_be_hidden()
        expect(rated.part("#many-bar")).to_be_hidden()
        rated.choose("rated.csv", RATED)
        rated.score("Done: 5 of 5 rows scored.")


def test_a_messy_file_of_a_german_excel_is_compared_marked_and_grouped(
    many: Many, tmp_path: Path
) -> None:
    foreign = {"warnings": ["not-english"]}
    served = MadeUp(lambda text: by_number(text) | (foreign if "Sch\u00f6n" in text else {}))
    served.stand_in(many.visit)
    stars = ["4,0", "n/a", "5,0", "", "1,0", "2"]
    texts = ["Sch\u00f6n 900", "Film 100", "Film 200", "Film 800", "Film 150", "Film 300"]
    rows = [
        f"{text};{star};{'Lampe' if at < 4 else 'Zelt'};0{1 + at}.{1 + at // 3}.2024"
        for at, (text, star) in enumerate(zip(texts, stars, strict=True))
    ]
    content = "\r\n".join(["Text;Sterne;Produkt;Tag", *rows])
    many.choose("alt.csv", content.encode("cp1252"))
    assert many.note() == "6 rows. It is not UTF-8, and is read as Windows-1252."
    assert many.part("#many-guess").inner_text() == "Texts: Text. Stars: Sterne."
    many.score("Done: 6 of 6 rows scored.")
    # Where the verdict disagrees comes first.
    assert many.column(1)[0] == "Film 200"
    agreement = many.part("#agreement p")
    expect(agreement.first).to_contain_text("The verdict agrees with “Sterne” in 3 of 4 (75.0 %).")
    expect(agreement.last).to_contain_text("Not compared: row 2 (“n/a”), 1 row without a value.")
    many.button("Show them").click()
    assert many.column(0) == ["2", "4"]
    assert many.counts()["not English"] == "1"
    many.part("#counts").get_by_role("button", name="not English").click()
    assert [row[0] + row[4] for row in many.rows()] == ["1not English"]
    bars = many.part("#groups")
    assert bars.get_by_role("button").all_inner_texts() == ["Lampe", "Zelt"]
    name = bars.get_by_role("img").first.get_attribute("aria-label")
    assert name == "negative 2 (50.0 %), positive 2 (50.0 %)"
    many.part(".by select").select_option("Tag")
    assert bars.get_by_role("button").all_inner_texts() == ["2024-01", "2024-02"]
    bars.get_by_role("button", name="2024-02").click()
    assert many.part("#range").inner_text() == "Rows 1 to 3 of 3, of “2024-02”"
    records = records_of(many.save(tmp_path), ";")
    assert [each["warnings"] for each in records] == ["not-english", *[""] * 5]


def test_verdicts_that_are_not_downloaded_go_only_after_a_question(
    many: Many, tmp_path: Path
) -> None:
    MadeUp(by_number).stand_in(many.visit)
    page = many.visit.page
    many.choose("one.csv", "text\nFilm 1\n")
    many.score()
    many.answer = False
    many.choose("two.csv", "text\nFilm 2\n")
    many.button("Remove the file").click()
    assert many.asked == ["confirm", "confirm"]
    # Another tab takes nothing away.
    page.get_by_role("link", name="Inside the model", exact=True).click()
    page.go_back()
    assert many.column(1) == ["Film 1"]
    page.evaluate("location.reload()")
    many.visit.wait_until(lambda: many.asked[2:] == ["beforeunload"])
    assert many.column(1) == ["Film 1"]
    many.save(tmp_path)
    many.choose("two.csv", "text\nFilm 2\n")
    assert many.part("#many-guess").inner_text() == "Texts: text."
    assert many.asked[3:] == []


SLOW = """() => {
  const read = Blob.prototype.arrayBuffer;
  Blob.prototype.arrayBuffer = async function () {
    const isSlow = this.name === 'slow.csv';
    if (isSlow) await new Promise((resolve) => { window.letGo = resolve; });
    const bytes = await read.call(this);
    // The page has taken them before this timer runs.
    if (isSlow) setTimeout(() => { window.isRead = true; });
    return bytes;
  };
}"""


@pytest.mark.parametrize("slow", ["text,stars\nSlow 1,5\n", "\0"])
@pytest.mark.parametrize("is_file", [True, False])
def test_what_is_chosen_last_wins(many: Many, slow: str, is_file: bool) -> None:
    MadeUp(by_number).stand_in(many.visit)
    page = many.visit.page
    page.evaluate(SLOW)
    many.choose("slow.csv", slow)
    expect(many.part("#many-note")).to_have_text("Reading slow.csv …")
    many.visit.wait_until(lambda: bool(page.evaluate("Boolean(window.letGo)")))
    if is_file:
        many.choose("quick.csv", "comment\nQuick 2 is a text.\n")
        assert many.note() == "1 row."
    else:
        many.paste("Quick 2 is a text.")
        many.score()
    page.evaluate("letGo()")
    many.visit.wait_until(lambda: bool(page.evaluate("window.isRead")))
    if is_file:
        assert many.note() == "1 row."
        assert many.part("#many-guess").inner_text() == "Texts: comment."
        many.score()
    assert many.column(1) == ["Quick 2 is a text."]


@pytest.mark.parametrize(
    ("values", "labels", "expected"),
    [
        (["Positive", "neg", ""], "npz", ["positive", "negative", None]),
        (["0", "1"], "np", ["negative", "positive"]),
        (["-1", "0", "1"], "nzp", ["negative", "neutral", "positive"]),
        (["0", "2", "4"], "nzp", ["negative", "neutral", "positive"]),
        (["1", "5", "6", "10"], "nzp", ["negative", "neutral", "neutral", "positive"]),
        (["red", "green"], "np", None),
        (["1", "2"], "rg", None),
        (["1.5", "200"], "np", None),
        (["★★★★☆", "★", "⭐️⭐️⭐️", "x"], "nzp", ["positive", "negative", "neutral", None]),
        (["4,0", "2,5", "n/a", "3"], "nzp", ["positive", "negative", None, "neutral"]),
        (["4 out of 5", "1/5", "1 of 9"], "np", ["positive", "negative", None]),
        (["90 %", "10%", "-"], "np", ["positive", "negative", None]),
        (["0", "1", "2"], "zrp", ["neutral", "red light", "positive"]),
        (["1", "5", "99"], "np", ["negative", "positive", None]),
    ],
)
def test_labels_and_ratings_are_read(
    shared: Visit, values: list[str], labels: str, expected: list[str | None] | None
) -> None:
    names = {"n": "negative", "z": "neutral", "p": "positive", "r": "red light", "g": "green light"}
    found = shared.page.evaluate(
        """async ([values, labels]) => {
          const { src } = document.querySelector('script[type=module]');
          const { meaningOf } = await import(src.replace('page', 'compare'));
          const meaning = meaningOf(values, labels);
          return meaning && values.map(meaning.labelOf);
        }""",
        [values, [names[each] for each in labels]],
    )
    assert found == expected


@pytest.mark.parametrize(
    ("limits", "most", "sizes"),
    [
        ({"max_sentences": 30}, 256, [30, 30, 30, 10]),
        ({}, 256, [32, 64, 4]),
        # An answer that takes long halves the next request.
        ({"request_timeout": 0}, 256, [32, 16, 8, 4, 2, *[1] * 38]),
        # After a request that is too much, none is larger than what went through.
        ({}, 10, [32, 16, *[8] * 12, 4]),
    ],
)
def test_requests_keep_the_limits_and_their_time(
    many: Many, limits: dict[str, float], most: int, sizes: list[int]
) -> None:
    kinds = [(413, "too-much-work"), (504, "timeout")]
    asked: list[int] = []

    def model(route: Route) -> None:
        answer = route.fetch().json()
        answer["limits"] |= limits
        route.fulfill(json=answer)

    def refuse_large(route: Route, at: int) -> bool:
        asked.append(len((route.request.post_data_json or {})["sentences"]))
        if asked[-1] > most:
            route.fulfill(**problem_of(*kinds[at]))
        return asked[-1] > most

    many.visit.page.route("**/model", model)
    served = MadeUp(by_number, refuse_large)
    served.stand_in(many.visit)
    texts = [f"Film {at}" for at in range(100)]
    many.paste(*texts)
    many.score("Done: 100 of 100 rows scored.")
    assert asked == sizes
    for status, _ in kinds if most < max(sizes) else []:
        many.visit.complained(str(status))
    assert [text for sentences in served.asked for text in sentences] == texts


def test_a_run_is_stopped_and_goes_on(many: Many) -> None:
    held: list[Route] = []

    def hold_the_second(route: Route, at: int) -> bool:
        if at == 1:
            held.append(route)
        return at == 1

    served = MadeUp(by_number, hold_the_second)
    served.stand_in(many.visit)
    texts = [f"Film {at}" for at in range(600)]
    many.paste(*texts)
    many.button("Score").click()
    many.wait("32 of 600 rows scored.")
    assert len(many.rows()) == 32
    with many.visit.page.expect_event("requestfailed"):
        many.button("Stop").click()
    many.wait("Stopped: 32 of 600 rows scored.")
    assert many.counts()["not scored"] == "568"
    # One button does what is next.
    expect(many.button("Go on")).to_be_focused()
    expect(many.button("Score")).to_be_hidden()
    assert many.visit.page.locator("#problem").is_hidden()
    assert len(held) == 1
    many.button("Go on").click()
    many.wait("Done: 600 of 600 rows scored.")
    assert [text for sentences in served.asked for text in sentences] == texts
    assert "not scored" not in many.counts()


def test_a_busy_service_is_asked_again_and_named_if_it_stays_busy(many: Many) -> None:
    def refuse(route: Route, at: int) -> bool:
        kinds = [(503, "overloaded"), (429, "rate-limited"), (503, "draining")]
        if at < len(kinds):
            route.fulfill(**problem_of(*kinds[at], retry_after=1))
        elif at == 4:
            route.fulfill(**problem_of(503, "overloaded", retry_after=61))
        return at != 3 and at < 5

    served = MadeUp(by_number, refuse)
    served.stand_in(many.visit)
    many.paste("Film 1", "Film 999")
    many.button("Score").click()
    expect(many.part("#many-state")).to_have_text(
        "0 of 2 rows scored. The service is busy. This page asks again by itself."
    )
    many.wait("Done: 2 of 2 rows scored.")
    assert served.asked == [["Film 1", "Film 999"]]
    assert served.count == 4
    many.visit.complained("503")
    many.visit.complained("429")
    many.paste("Film 1", "Film 998")
    many.score("Stopped: 0 of 2 rows scored.")
    assert "The service is overloaded." in many.visit.problem()
    expect(many.visit.page.locator("#problem")).to_be_in_viewport()
    many.visit.complained("503")
    assert served.count == 5
    many.visit.page.get_by_role("button", name="Try again").click()
    many.wait("Done: 2 of 2 rows scored.")
    assert many.visit.page.locator("#problem").count() == 0


def test_a_row_that_is_refused_by_itself_is_bad_and_the_rest_goes_on(many: Many) -> None:
    def refuse_one(route: Route, _: int) -> bool:
        is_refused = "Film 3" in (route.request.post_data_json or {})["sentences"]
        if is_refused:
            route.fulfill(**problem_of(422, "invalid-request"))
        return is_refused

    MadeUp(by_number, refuse_one).stand_in(many.visit)
    many.paste(*(f"Film {at}" for at in range(8)))
    many.score("Done: 7 of 8 rows scored, 1 unreadable.")
    assert many.rows()[-1] == ["4", "Film 3", "unreadable: Details.", "", ""]
    many.visit.complained("422")


def test_a_replaced_model_is_named(many: Many) -> None:
    served = MadeUp(by_number)

    def replace(_: Route, at: int) -> bool:
        if at == 1:
            served.version = "ba9876543210"
        return False

    served.before = replace
    served.stand_in(many.visit)
    many.paste(*(f"Film {at}" for at in range(300)))
    many.score()
    assert many.part("#many-versions").inner_text() == (
        "The model was replaced during the run: 32 rows by default 0123456789ab, 268 rows by "
        "default ba9876543210. Score again to have all rows of one model."
    )
    many.button("Score again").click()
    many.wait("Done")
    expect(many.part("#many-versions")).to_be_hidden()


def test_all_is_done_with_the_keys(many: Many) -> None:
    MadeUp(by_number).stand_in(many.visit)
    page = many.visit.page
    page.get_by_role("link", name="One review", exact=True).focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="A file", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(many.part("#many-lines")).to_be_visible()
    for _ in range(4):
        page.keyboard.press("Tab")
    expect(many.part("#many-lines")).to_be_focused()
    page.keyboard.insert_text("\n".join(f"Film {at}" for at in range(250)))
    page.keyboard.press("Tab")
    expect(many.button("Score")).to_be_focused()
    page.keyboard.press("Enter")
    many.wait("Done: 250 of 250 rows scored.")
    expect(many.button("Download CSV")).to_be_focused()
    after = many.button("Next")
    after.focus()
    for _ in range(3):
        page.keyboard.press("Enter")
    # At the last page the button does nothing, and keeps the focus.
    expect(after).to_be_focused()
    expect(after).to_have_attribute("aria-disabled", "true")
    assert many.part("#range").inner_text() == "Rows 201 to 250 of 250"
    score = many.part("th").get_by_role("button", name="Score")
    score.focus()
    page.keyboard.press("Space")
    expect(score).to_be_focused()
    assert many.column(1)[0] == "Film 249"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Open row 250"
    page.unroute("**/predict")  # its model is not the served one
    page.keyboard.press("Enter")
    verdict = page.locator("#answer .verdict")
    expect(verdict).to_be_focused()
    expect(verdict).to_be_in_viewport()
    assert page.get_by_label("Text", exact=True).input_value() == "Film 249"
    page.wait_for_url(re.compile("#review$"))
    page.get_by_role("button", name="Back to row 250 of the table").click()
    expect(many.button("Open row 250")).to_be_focused()
    expect(many.button("Open row 250")).to_be_in_viewport()
