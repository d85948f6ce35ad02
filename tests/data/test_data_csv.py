"""Tables in CSV: labels by name, texts by vocabulary, missing values by rule."""

from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("pyarrow")
from understudy.config.build import build_data
from understudy.config.resolve import resolve
from understudy.data import sets
from understudy.data.assemble import at_site, build_federation
from understudy.data.federation import Federation
from understudy.data.own import is_path
from understudy.data.settings import DataSettings
from understudy.data.tables import MOST_WORDS, TableRules, read_table, read_users
from understudy.errors import UserError
from understudy.runs.play import built


def csv(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def made(**words: Any) -> Federation:
    words = words if "sites" in words else {"clients": 1, "split": "iid", **words}
    return build_federation(DataSettings.model_validate(words), seed=0)


@pytest.mark.parametrize("at", [",", ";", "\t"])
def test_columns_are_features_in_the_order_of_their_names_and_an_index_is_none(tmp_path: Path, at: str) -> None:
    rows = (",age, f10,f2,y", "0,3.5,1,true,1", "1,4,-2,false,0")  # as pandas writes an index
    file = csv(tmp_path / "a.csv", *(row.replace(",", at) for row in rows))
    read = read_table(file, ())
    assert read.x.tolist() == [[3.5, 1, 1], [4, 0, -2]]  # age, f2, f10
    assert read.y.tolist() == [1, 0]


def test_x_and_y_are_columns_like_others_where_the_label_has_a_name(tmp_path: Path) -> None:
    file = csv(tmp_path / "a.csv", "x,y,target", "1,2,0", "3,4,1")
    assert read_table(file, (), rules=TableRules(label="target")).x.tolist() == [[1, 2], [3, 4]]


def test_a_label_that_is_not_there_is_told_with_the_nearest_name(tmp_path: Path) -> None:
    file = csv(tmp_path / "a.csv", "age,target", "1,0")
    with pytest.raises(UserError, match=r"data\.label: .*a\.csv: There is no column 'taget'\. Did you mean 'target'"):
        read_table(file, (), rules=TableRules(label="taget"))
    with pytest.raises(UserError, match=r"no column for labels \('age', 'target'\).*or name it with data\.label"):
        read_table(file, ())


def test_texts_become_one_feature_per_word_and_the_words_are_found(tmp_path: Path) -> None:
    north = csv(tmp_path / "n.csv", "age,sex,diagnosis", "50,m,ill", "60,f,well")
    south = csv(tmp_path / "s.csv", "sex,age,diagnosis", "x,70,ill")
    data = made(sites={"north": str(north), "south": str(south)}, label="diagnosis")
    assert data.label_names == ("ill", "well")
    places = {"kind": "vector", "categories": [[1, 3]]}  # age first, then the words of sex
    assert data.found == {"labels": ["ill", "well"], "vocabulary": {"sex": ["f", "m", "x"]}, **places}
    assert data.sites["north"].own.x.tolist() == [[50, 0, 1, 0], [60, 1, 0, 0]]  # age, f, m, x
    assert data.sites["south"].own.x.tolist() == [[70, 0, 0, 1]]


def test_what_was_found_is_in_the_config_of_the_run_and_gives_the_same_records(tmp_path: Path) -> None:
    file = csv(tmp_path / "a.csv", "age,sex,y", "1,m,a", "2,f,b")
    given = {"data": {"name": str(file), "clients": 1, "split": "iid"}, "model": "mlp", "method": "fedavg"}
    first = build_data(resolve(given))
    _, words = built(resolve(given), first, None)
    assert words["data"]["vocabulary"] == {"sex": ["f", "m"]}
    again = build_data(resolve(words))
    assert torch.equal(first.sites["client-0"].own.x, again.sites["client-0"].own.x)
    assert built(resolve(words), again, None)[1]["data"] == words["data"]


def test_a_site_alone_needs_the_vocabulary_and_refuses_other_words(tmp_path: Path) -> None:
    file = csv(tmp_path / "a.csv", "age,sex,y", "1,m,0", "2,f,1")
    words: dict[str, Any] = {"sites": {"north": None}, "shape": [3], "classes": 2}
    without = DataSettings.model_validate(words)
    with pytest.raises(UserError, match=r"column 'sex': it holds texts; list its words in data\.vocabulary"):
        at_site(without, "north", file, build_federation(without, seed=0).problem, 0)
    told = DataSettings.model_validate({**words, "vocabulary": {"sex": ["f", "m"]}})
    problem = build_federation(told, seed=0).problem
    assert at_site(told, "north", file, problem, 0).own.x.tolist() == [[1, 0, 1], [2, 1, 0]]
    csv(file, "age,sex,y", "1,q,0")
    with pytest.raises(UserError, match=r"row 0 has 'q', which is not in data\.vocabulary\.sex: f, m"):
        at_site(told, "north", file, problem, 0)


def test_numbers_are_categories_where_the_vocabulary_says_so(tmp_path: Path) -> None:
    file = csv(tmp_path / "a.csv", "ward,y", "3,0", "1,1")
    rules = TableRules(vocabulary={"ward": ("1", "2", "3")})
    assert read_table(file, (), rules=rules).x.tolist() == [[0, 0, 1], [1, 0, 0]]


def test_a_text_per_record_is_no_category_and_can_be_ignored(tmp_path: Path) -> None:
    rows = [f"{at},patient-{at},{at % 2}" for at in range(MOST_WORDS + 1)]
    file = csv(tmp_path / "a.csv", "age,name,y", *rows)
    with pytest.raises(UserError, match=rf"column 'name': it has more than {MOST_WORDS} .* data\.ignore"):
        made(name=str(file))
    assert made(name=str(file), ignore=["name"]).problem.shape == (1,)


@pytest.mark.parametrize("odd", ["unknown", "1,5"])
def test_numbers_with_one_cell_that_is_none_do_not_become_a_feature_each(tmp_path: Path, odd: str) -> None:
    rows = [f"{at}.5;{at % 2}" for at in range(20)]
    file = csv(tmp_path / "a.csv", "pressure;y", *rows, f"{odd};1")
    with pytest.raises(
        UserError, match=rf"column 'pressure': it holds numbers, but also '{odd}'; .* leave a cell empty"
    ):
        made(name=str(file))
    words = sorted([f"{at}.5" for at in range(20)] + [odd])
    assert made(name=str(file), vocabulary={"pressure": words}).problem.shape == (21,)


def test_a_few_numbers_among_words_are_names_of_categories(tmp_path: Path) -> None:
    file = csv(tmp_path / "a.csv", "grade,y", "1,0", "2,1", "3,0", "unknown,1")
    assert made(name=str(file)).problem.shape == (4,)


def test_a_question_mark_is_a_missing_value(tmp_path: Path) -> None:
    file = csv(tmp_path / "a.csv", "age,sex,y", "10,m,0", "?,f,1", "30,?,0", "20,f,1")
    with pytest.raises(UserError, match=r"values are missing in the columns age, sex;"):
        made(name=str(file))
    rules = TableRules(missing="mean", vocabulary={"sex": ("f", "m")})
    assert read_table(file, (), rules=rules).x.tolist() == [[10, 0, 1], [20, 1, 0], [30, 0, 0], [20, 1, 0]]


MISSING = ("age,sex,users,y", "10,m,1,0", ",f,2,1", "30,NA,3,0", "50,f,4,1")


def test_a_missing_value_is_refused_unless_there_is_a_rule(tmp_path: Path) -> None:
    file = csv(tmp_path / "a.csv", *MISSING)
    with pytest.raises(UserError, match=r"values are missing in the columns age, sex; .* data\.missing: drop or mean"):
        made(name=str(file))


def test_rows_with_a_missing_value_are_dropped_with_their_users(tmp_path: Path) -> None:
    file, rules = csv(tmp_path / "a.csv", *MISSING), TableRules(missing="drop", vocabulary={"sex": ("f", "m")})
    assert read_table(file, (), rules=rules).x.tolist() == [[10, 0, 1], [50, 1, 0]]
    users = read_users(file, rules)
    assert users is not None
    assert users.tolist() == [1, 4]
    csv(file, "age,y", ",0")
    with pytest.raises(UserError, match="holds no records"):
        read_table(file, (), rules=rules)


def test_a_missing_value_becomes_the_mean_and_a_missing_word_nothing(tmp_path: Path) -> None:
    file, rules = csv(tmp_path / "a.csv", *MISSING), TableRules(missing="mean", vocabulary={"sex": ("f", "m")})
    # (10 + 30 + 50) / 3 = 30
    assert read_table(file, (), rules=rules).x.tolist() == [[10, 0, 1], [30, 1, 0], [30, 0, 0], [50, 1, 0]]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({}, r"data\.vocabulary: under a privacy budget words must not come from the records; list those of sex"),
        ({"vocabulary": {"sex": ["f", "m"]}, "missing": "mean"}, r"data\.missing: a mean is not private"),
    ],
)
def test_under_a_privacy_budget_nothing_is_taken_from_the_records(
    tmp_path: Path, data: dict[str, Any], says: str
) -> None:
    file = csv(tmp_path / "a.csv", "age,sex,y", "1,m,0", "2,f,1")
    privacy = {"epsilon": 8, "delta": 1e-4, "records": 2}
    words = {"data": {"name": str(file), "clients": 1, "split": "iid", **data}, "model": "mlp", "privacy": privacy}
    with pytest.raises(UserError, match=says):
        build_data(resolve(words))


@pytest.mark.parametrize("where", ["labels", "vocabulary.ill"])
def test_words_that_yaml_reads_as_truth_values_are_to_be_quoted(where: str) -> None:
    data = {"name": "a.csv", **({"labels": [False, True]} if where == "labels" else {"vocabulary": {"ill": [False]}})}
    with pytest.raises(UserError, match=r"data\.(labels|vocabulary).*yes, no, on, off.*write such a word in quotes"):
        resolve({"data": data})


def test_words_may_be_numbers() -> None:
    settings = resolve({"data": {"name": "a.csv", "labels": [1, 2], "vocabulary": {"grade": [1, 2]}}}).data
    assert settings is not None
    assert settings.labels == ("1", "2")
    assert settings.vocabulary == {"grade": ("1", "2")}


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (("age,y", "1,2,3"), r"a\.csv cannot be read as CSV: .*Expected 2 columns, got 3"),
        (("when,y", "2024-01-05,0"), r"column 'when': it holds date32.*leave it out with data\.ignore"),
        (("age,age,y", "1,2,0"), "two columns with the same name"),
        (("y", "1"), "has no records"),
        (("age,y",), "holds no records"),
        (("age,y", "1,", "2,0"), "column 'y': some values are missing"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_in_a_sentence(tmp_path: Path, lines: tuple[str, ...], says: str) -> None:
    file = csv(tmp_path / "a.csv", *lines)
    with pytest.raises(UserError, match=says):
        read_table(file, ())


def test_a_file_in_another_encoding_and_one_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("größe,y\n1,0\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"a\.csv cannot be read as CSV"):
        read_table(tmp_path / "a.csv", ())
    with pytest.raises(UserError, match="There is no file"):
        sets.load(str(tmp_path / "none.csv"))
    assert is_path("none.csv")


def test_a_folder_of_csv_is_a_table_but_a_list_beside_images_is_not(tmp_path: Path) -> None:
    csv(tmp_path / "t" / "a.csv", "age,y", "1,0")
    csv(tmp_path / "t" / "b.csv", "age,y", "2,1")
    assert sorted(made(name=str(tmp_path / "t")).sites["client-0"].own.x.flatten().tolist()) == [1, 2]
    (tmp_path / "t" / "cat").mkdir()
    with pytest.raises(UserError, match="holds no PNG or JPEG images"):
        made(name=str(tmp_path / "t"))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"ignore": ["weight"]}, r"n\.csv has a column 'bmi', .*s\.csv has none; give every site the same columns"),
        ({"ignore": ["bmi"]}, r"s\.csv has a column 'weight', .*n\.csv has none"),
        ({"ignore": ["bmi", "wieght"]}, r"data\.ignore: There is no column 'wieght'\. Did you mean 'weight'"),
        ({"vocabulary": {"sex": ["f", "m"]}}, r"data\.vocabulary: There is no column 'sex'"),
    ],
)
def test_columns_that_one_site_lacks_or_nobody_has_are_named(tmp_path: Path, words: dict[str, Any], says: str) -> None:
    north = csv(tmp_path / "n.csv", "age,bmi,y", "50,20,0", "51,21,1")
    south = csv(tmp_path / "s.csv", "age,weight,y", "50,80,0")
    with pytest.raises(UserError, match=says):
        made(sites={"north": str(north), "south": str(south)}, **words)
    both = made(sites={"north": str(north), "south": str(south)}, ignore=["bmi", "weight"])
    assert both.problem.shape == (1,)
